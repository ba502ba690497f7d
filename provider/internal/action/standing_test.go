package action

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// A cluster is waited for until placements may select it, unless it only has to join.
func TestAnAvailableClusterIsWaitedForWhileItIsTainted(t *testing.T) {
	accepted := true
	object := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{
		HubAcceptsClient: &accepted, Taints: []clusterv1.Taint{{Key: "own"}, {Key: cluster.UnreachableTaint}},
	}}
	for _, c := range []string{cluster.ConditionHubAccepted, cluster.ConditionJoined, cluster.ConditionAvailable} {
		object.Status.Conditions = append(object.Status.Conditions,
			metav1.Condition{Type: c, Status: metav1.ConditionTrue})
	}
	if s := standingOf(object, false); s.reached || s.hopeless {
		t.Errorf("with the hub's taint: %+v", s)
	}
	if s := standingOf(object, true); !s.reached {
		t.Errorf("joined, with the hub's taint: %+v", s)
	}
	object.Spec.Taints = object.Spec.Taints[:1]
	if s := standingOf(object, false); !s.reached {
		t.Errorf("with a taint of somebody else: %+v", s)
	}
}
