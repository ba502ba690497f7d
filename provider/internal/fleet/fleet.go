package fleet

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// Snapshot is a snapshot of what placements depend on, and how the hub schedules
// them.
type Snapshot struct {
	scheduling.Snapshot
	// Options are the hub's.
	Options scheduling.Options
	// Spreads is that the hub honours spread policies.
	Spreads bool
}

// Preview is what a placement would select.
type Preview struct {
	scheduling.Result
	// Clusters are the selected ones; Added and Dropped tell how they differ from
	// the present ones. All are sorted, and not nil.
	Clusters, Added, Dropped []string
}

// Preview tells what a placement would select. The clusters that a placement of
// that name has now count as its own.
func (f *Snapshot) Preview(placement *clusterv1beta1.Placement, explain bool) Preview {
	if !f.Spreads {
		placement = placement.DeepCopy()
		placement.Spec.SpreadPolicy = clusterv1beta1.SpreadPolicy{}
	}
	in := f.Input(placement)
	in.Options, in.Explain = f.Options, explain
	p := Preview{Result: scheduling.Schedule(in), Clusters: []string{}}
	for _, group := range p.Groups {
		p.Clusters = append(p.Clusters, group.Clusters...)
	}
	slices.Sort(p.Clusters)
	var present []string
	for name := range in.Selected {
		present = append(present, name)
	}
	p.Added, p.Dropped = Difference(present, p.Clusters)
	return p
}

// Satisfied is the condition PlacementSatisfied as it would be.
func (p *Preview) Satisfied() metav1.Condition {
	if c := meta.FindStatusCondition(p.Conditions, cluster.ConditionPlacementSatisfied); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// Misconfigured says what is wrong with the placement, or nothing.
func (p *Preview) Misconfigured() string {
	if c := meta.FindStatusCondition(p.Conditions, cluster.ConditionPlacementMisconfigured); c != nil && c.Status == metav1.ConditionTrue {
		return c.Message
	}
	return ""
}

// Difference is what after has and before has not, and the reverse, both sorted
// and not nil.
func Difference(before, after []string) (added, dropped []string) {
	without := func(list, others []string) []string {
		rest := slices.DeleteFunc(append([]string{}, list...), func(name string) bool { return slices.Contains(others, name) })
		slices.Sort(rest)
		return rest
	}
	return without(after, before), without(before, after)
}
