package rollout

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
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
