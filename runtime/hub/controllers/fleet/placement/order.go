package placement

import (
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// inSafeOrder puts decisions into the order in which to write them: one that
// takes a cluster over comes before the one that gives it away. In between the
// cluster is in both. If it were in none, controllers that follow the decisions
// would remove its workloads. Decisions that give clusters to each other have no
// such order; there the first one by name is written first.
func inSafeOrder(want []scheduling.Decision, present map[string]*clusterv1beta1.PlacementDecision) []scheduling.Decision {
	goesTo := map[string]int{}
	for i, w := range want {
		for _, cluster := range w.Clusters {
			goesTo[cluster] = i
		}
	}
	out := make([]scheduling.Decision, 0, len(want))
	seen := make([]bool, len(want))
	var visit func(i int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		if d := present[want[i].Name]; d != nil {
			for _, c := range d.Status.Decisions {
				if to, ok := goesTo[c.ClusterName]; ok {
					visit(to)
				}
			}
		}
		out = append(out, want[i])
	}
	for i := range want {
		visit(i)
	}
	return out
}
