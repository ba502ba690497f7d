package authorization

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

func TestStandingOf(t *testing.T) {
	for name, x := range map[string]struct {
		cluster           string
		accepted, leaving bool
		want              Standing
	}{
		"new":                         {"paris", false, false, Unaccepted},
		"accepted":                    {"paris", true, false, Accepted},
		"accepted, and deleted":       {"paris", true, true, Leaving},
		"denied, and deleted":         {"paris", false, true, Unaccepted},
		"of a reserved name":          {"kube-system", true, false, Refused},
		"of a reserved name, deleted": {"kube-system", false, true, Refused},
	} {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: x.cluster}}
		if x.accepted {
			mc.Spec.HubAcceptsClient = ptr.To(true)
		}
		if x.leaving {
			mc.DeletionTimestamp = ptr.To(metav1.Now())
		}
		if got := standingOf(mc); got != x.want {
			t.Errorf("%s: it %s, want that it %s", name, got, x.want)
		}
	}
}

func TestFlowOf(t *testing.T) {
	for name, x := range map[string]struct {
		user   user.DefaultInfo
		flow   string
		writes int
	}{
		"an administrator":           {user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}, "", 0},
		"an agent":                   {user.DefaultInfo{Name: cluster.CommonName("paris", "a"), Groups: []string{cluster.Group("paris")}}, "the managed cluster paris", agentWrites},
		"another agent of it":        {user.DefaultInfo{Name: cluster.CommonName("paris", "b"), Groups: []string{cluster.Group("paris")}}, "the managed cluster paris", agentWrites},
		"an agent and administrator": {user.DefaultInfo{Name: cluster.CommonName("paris", "a"), Groups: []string{cluster.Group("paris"), user.SystemPrivilegedGroup}}, "", 0},
		"an add-on's agent":          {user.DefaultInfo{Name: cluster.UserPrefix + "cluster:paris:addon:x:agent:y"}, "the managed cluster paris", agentWrites},
		"somebody else":              {user.DefaultInfo{Name: "alice"}, "the user alice", userWrites},
		"somebody who is not known":  {user.DefaultInfo{Name: "system:anonymous"}, "the user system:anonymous", userWrites},
	} {
		got := NewAgents().FlowOf(&x.user)
		pool, leases := "users", "users"
		switch x.writes {
		case 0:
			pool, leases = "", ""
		case agentWrites:
			pool, leases = "agents", "heartbeats"
		}
		if got.Pool.Name != pool || got.Leases.Name != leases {
			t.Errorf("%s: the pools are %q and %q, want %q and %q", name, got.Pool.Name, got.Leases.Name, pool, leases)
		}
		if got.Name != x.flow || got.Writes != x.writes || (got.Reads == 0) != (x.flow == "") {
			t.Errorf("%s: the flow is %+v, want %q with %d writes", name, got, x.flow, x.writes)
		}
	}
}
