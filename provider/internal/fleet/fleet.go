package fleet

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// What a placement would select. The hub's own scheduling decides it, on a
// snapshot of the fleet.

// Snapshot is a snapshot of what placements depend on.
type Snapshot struct {
	Clusters  []clusterv1.ManagedCluster
	Sets      []clusterv1beta2.ManagedClusterSet
	Bindings  []clusterv1beta2.ManagedClusterSetBinding
	decisions []clusterv1beta1.PlacementDecision
	scores    []clusterv1alpha1.AddOnPlacementScore
	// Options are how the hub schedules.
	Options scheduling.Options
	// Spreads tells whether it heeds spread policies.
	Spreads bool
	Now     time.Time

	scoreOnce sync.Once
	scoreOf   map[scoreKey]*clusterv1alpha1.AddOnPlacementScore
}

type scoreKey struct{ cluster, resource string }

// score looks up a cluster's AddOnPlacementScore; nil when there is none.
func (f *Snapshot) score(clusterName, resourceName string) *clusterv1alpha1.AddOnPlacementScore {
	f.scoreOnce.Do(func() {
		f.scoreOf = make(map[scoreKey]*clusterv1alpha1.AddOnPlacementScore, len(f.scores))
		for i := range f.scores {
			f.scoreOf[scoreKey{f.scores[i].Namespace, f.scores[i].Name}] = &f.scores[i]
		}
	})
	return f.scoreOf[scoreKey{clusterName, resourceName}]
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
	in := f.input(placement)
	in.Explain = explain
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

// input is the scheduler's view of the snapshot for one placement.
func (f *Snapshot) input(placement *clusterv1beta1.Placement) scheduling.Input {
	in := scheduling.Input{Placement: placement, Now: f.Now, Selected: map[string]bool{}, Elsewhere: map[string]int{}, Score: f.score, Options: f.Options}
	var bound []string
	for _, b := range f.Bindings {
		if b.Namespace == placement.Namespace {
			bound = append(bound, b.Name)
		}
	}
	exists := func(name string) bool {
		return slices.ContainsFunc(f.Sets, func(s clusterv1beta2.ManagedClusterSet) bool { return s.Name == name })
	}
	in.Sets.Bound, in.Sets.Eligible = membership.Eligible(bound, exists, placement.Spec.ClusterSets)
	var eligible []*clusterv1beta2.ManagedClusterSet
	for i := range f.Sets {
		if slices.Contains(in.Sets.Eligible, f.Sets[i].Name) {
			eligible = append(eligible, &f.Sets[i])
		}
	}
	all := make([]*clusterv1.ManagedCluster, 0, len(f.Clusters))
	for i := range f.Clusters {
		all = append(all, &f.Clusters[i])
	}
	in.Clusters = membership.Clusters(eligible, all)
	for i := range f.decisions {
		own := decidedFor(&f.decisions[i], placement)
		for _, d := range f.decisions[i].Status.Decisions {
			if own {
				in.Selected[d.ClusterName] = true
			} else {
				in.Elsewhere[d.ClusterName]++
			}
		}
	}
	return in
}

// decidedFor reports whether a decision is a placement's: by its label or, as the
// hub takes it too where somebody edited the label, by its name.
func decidedFor(d *clusterv1beta1.PlacementDecision, p *clusterv1beta1.Placement) bool {
	if d.Namespace != p.Namespace || p.Name == "" {
		return false
	}
	if d.Labels[cluster.PlacementLabel] == p.Name {
		return true
	}
	number, ok := strings.CutPrefix(d.Name, p.Name+"-decision-")
	_, err := strconv.ParseUint(number, 10, 32)
	return ok && err == nil
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
