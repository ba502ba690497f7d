package install

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
)

// plan is where an add-on is to be added and removed.
type plan struct {
	// add are clusters, by name.
	add    []string
	remove []*v1alpha1.ManagedClusterAddOn
}

// decide plans where an add-on is to be. Its placements select together; one that
// does not exist selects nothing, so an add-on whose only placement is deleted goes
// from all clusters, as upstream.
//
// An add-on that is on its way out still counts as there. Nothing is removed while
// the decisions of a placement are being rewritten, or can't be used: a cluster that
// moves from one decision to another is in none for a moment. Upstream removes it
// then, and installs it again.
func decide(placed []selection.Placed, have []*v1alpha1.ManagedClusterAddOn) plan {
	wanted, kept := sets.Set[string]{}, sets.Set[string]{}
	certain := true
	for _, p := range placed {
		if !p.Missing && (p.Problem != nil || !p.Settled) {
			certain = false
		}
		for _, g := range p.Groups {
			wanted.Insert(g.Clusters...)
		}
		kept = kept.Union(p.Clusters)
	}
	var out plan
	there := sets.Set[string]{}
	for _, a := range have {
		there.Insert(a.Namespace)
		if certain && !kept.Has(a.Namespace) && a.DeletionTimestamp.IsZero() {
			out.remove = append(out.remove, a)
		}
	}
	out.add = slices.Sorted(maps.Keys(wanted.Difference(there)))
	return out
}
