package rollout

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// fleet is what a placement has selected.
type fleet struct {
	// groups are in the order of their indexes, each with its clusters in the
	// order of their names.
	groups   []Group
	clusters sets.Set[string]
}

// newFleet sorts groups. A placement writes a group in slices, so several
// elements may have one index: they are one group.
func newFleet(groups []Group) fleet {
	byIndex := map[int32]*Group{}
	f := fleet{clusters: sets.New[string]()}
	for _, g := range groups {
		whole, ok := byIndex[g.Index]
		if !ok {
			whole = &Group{Index: g.Index, Name: g.Name}
			byIndex[g.Index] = whole
		}
		for _, c := range g.Clusters {
			whole.Clusters = append(whole.Clusters, c)
			f.clusters.Insert(c)
		}
	}
	for _, index := range slices.Sorted(maps.Keys(byIndex)) {
		g := byIndex[index]
		slices.Sort(g.Clusters)
		g.Clusters = slices.Compact(g.Clusters)
		f.groups = append(f.groups, *g)
	}
	return f
}

func (f fleet) has(cluster string) bool { return f.clusters.Has(cluster) }

// divide separates the groups that mandatory selects from the rest. A name selects
// all groups that have it; without a name the index does, which is 0 when it is
// not set. In the rest there are no groups beyond a gap in the indexes.
func (f fleet) divide(mandatory []clusterv1alpha1.MandatoryDecisionGroup) (first, rest []Group) {
	for _, g := range f.groups {
		selected := slices.ContainsFunc(mandatory, func(m clusterv1alpha1.MandatoryDecisionGroup) bool {
			if m.GroupName != "" {
				return m.GroupName == g.Name
			}
			return m.GroupIndex == g.Index
		})
		switch {
		case selected:
			first = append(first, g)
		case f.reached(g):
			rest = append(rest, g)
		}
	}
	return first, rest
}

// reached reports whether a group's index is one that the groups can have without
// a gap.
func (f fleet) reached(g Group) bool {
	return g.Index >= 0 && int(g.Index) < len(f.groups)
}

// size is the number of clusters in all groups but those beyond a gap.
func (f fleet) size() int {
	var reached []Group
	for _, g := range f.groups {
		if f.reached(g) {
			reached = append(reached, g)
		}
	}
	return len(clustersOf(reached))
}

// clustersOf are the clusters of groups, by name and each once.
func clustersOf(groups []Group) []string {
	var all []string
	for _, g := range groups {
		all = append(all, g.Clusters...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// OfWork is how far the rollout of a work that has the template is. Only
// conditions that the agent wrote for the current generation count.
//
// Progressing comes from the template's rules, or from an agent that derives it.
// Upstream waits for it forever. Unless needsProgressing asks for that, Applied
// and Available count for a work without it: it is done once both are True.
func OfWork(w *workv1.ManifestWork, needsProgressing bool) ClusterStatus {
	s := ClusterStatus{Cluster: w.Namespace, Status: ToApply}
	find := func(kind string) (c *metav1.Condition, current bool) {
		c = meta.FindStatusCondition(w.Status.Conditions, kind)
		return c, c != nil && c.ObservedGeneration == w.Generation
	}
	applied, current := find(work.ConditionApplied)
	if !current || applied.Status != metav1.ConditionTrue {
		return s
	}
	progressing, current := find(work.ConditionProgressing)
	if progressing == nil && needsProgressing || progressing != nil && !current {
		return s
	}
	degraded, current := find(work.ConditionDegraded)
	if degraded != nil && !current {
		return s
	}
	isDegraded := degraded != nil && degraded.Status == metav1.ConditionTrue
	if progressing == nil {
		available, current := find(work.ConditionAvailable)
		switch {
		case isDegraded:
			s.Status, s.Since = Failed, degraded.LastTransitionTime.Time
		case current && available.Status == metav1.ConditionTrue:
			s.Status, s.Since = Succeeded, later(applied, available)
		case current:
			s.Status, s.Since = Progressing, later(applied, available)
		default:
			s.Status, s.Since = Progressing, applied.LastTransitionTime.Time
		}
		return s
	}
	switch {
	case progressing.Status == metav1.ConditionTrue && isDegraded:
		s.Status, s.Since = Failed, degraded.LastTransitionTime.Time
	case progressing.Status == metav1.ConditionFalse:
		s.Status, s.Since = Succeeded, progressing.LastTransitionTime.Time
	default: // an Unknown is not an end
		s.Status, s.Since = Progressing, progressing.LastTransitionTime.Time
	}
	return s
}

func later(a, b *metav1.Condition) time.Time {
	if a.LastTransitionTime.Before(&b.LastTransitionTime) {
		return b.LastTransitionTime.Time
	}
	return a.LastTransitionTime.Time
}
