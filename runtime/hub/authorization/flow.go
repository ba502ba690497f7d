package authorization

import (
	"runtime"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
)

// agentWrites is how many writes of one cluster's agents run at a time; they
// mostly wait for the disk. others is how many requests of any other user run
// at a time.
const (
	agentWrites = 16
	others      = 200
)

// FlowOf assigns a user's requests to a flow. All agents of a cluster share
// one, so that a cluster gains nothing by having many. Their reads use at most
// half of the processors, so that the requests of others stay fast. The hub's
// own requests and those of administrators never wait.
func FlowOf(u user.Info) controlplane.Flow {
	groups := u.GetGroups()
	if slices.Contains(groups, user.SystemPrivilegedGroup) {
		return controlplane.Flow{}
	}
	name := u.GetName()
	if clusters := cluster.AgentClusters(groups); len(clusters) > 0 {
		return controlplane.Flow{Name: "cluster/" + clusters[0], Reads: agentReads(), Writes: agentWrites}
	}
	if strings.HasPrefix(name, cluster.UserPrefix) { // an add-on's agent
		return controlplane.Flow{Name: "user/" + name, Reads: agentReads(), Writes: agentWrites}
	}
	return controlplane.Flow{Name: "user/" + name, Reads: others, Writes: others}
}

func agentReads() int { return max(1, runtime.GOMAXPROCS(0)/2) }
