package authorization

import (
	"runtime"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/budget"
)

// What an owner's requests may take at a time. Writes mostly wait for the disk. A body
// takes up to twenty times its size in memory until it is stored; the largest that is
// stored has its turn alone. A watch takes some
// 50 KB; 500 add-ons in a cluster have four each.
const (
	agentWrites, agentWatches, agentBytes = 16, 2000, 256 << 10
	userWrites, userWatches, userBytes    = 32, 2000, 1536 << 10
)

// Owners find out who answers for requests, by the clusters that the hub has.
func (g *Agents) Owners() budget.Owners { return budget.Owners{IsCluster: g.isNamespace} }

// isNamespace reports whether a namespace is that of a managed cluster.
func (g *Agents) isNamespace(name string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.counts(cluster.Belonging{Cluster: name, Part: cluster.Account}) || g.clusters[name].standing != Absent
}

// FlowOf assigns a user's requests to a flow: that of the owner whose budgets they use,
// so that nobody gains anything by having many users. Their reads use at most half of
// the processors, so that the requests of others stay fast. The hub's own requests and
// those of administrators never wait.
func (g *Agents) FlowOf(u user.Info) extension.Flow {
	owner, limited := g.Owners().Of(u)
	if !limited {
		return extension.Flow{}
	}
	flow := extension.Flow{
		Name: owner.String(), Reads: userReads(), Writes: userWrites, Watches: userWatches, Bytes: userBytes,
	}
	if owner.Class == budget.OfCluster {
		flow.Reads, flow.Writes, flow.Watches, flow.Bytes = agentReads(), agentWrites, agentWatches, agentBytes
	}
	return flow
}

func agentReads() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// userReads is two at least: a user is often several programs, and one of them may be
// slow to read its answer.
func userReads() int { return max(2, runtime.GOMAXPROCS(0)/2) }
