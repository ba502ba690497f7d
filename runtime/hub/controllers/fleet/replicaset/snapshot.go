package replicaset

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
)

// snapshot is all that a pass decides from.
type snapshot struct {
	set        *workv1alpha1.ManifestWorkReplicaSet
	placements []placement
	// works are all that have the set's label. Nobody may change them.
	works []*workv1.ManifestWork
}

// placement is what a placement that the set names has selected.
type placement struct {
	name     string
	strategy clusterv1alpha1.RolloutStrategy
	selection.Placed
}

// refused are the clusters of the decisions that get no work.
func (s snapshot) refused() (names []string) {
	for _, p := range s.placements {
		for _, r := range p.Refused {
			names = append(names, r.Cluster)
		}
	}
	return names
}

func (c *Controller) snapshot(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) (snapshot, error) {
	s := snapshot{set: set}
	named := sets.Set[string]{}
	for _, ref := range set.Spec.PlacementRefs {
		if named.Has(ref.Name) {
			continue // a second strategy would contradict the first
		}
		named.Insert(ref.Name)
		p, err := c.placement(ctx, set.Namespace, ref)
		if err != nil {
			return s, err
		}
		s.placements = append(s.placements, p)
	}
	var err error
	s.works, err = c.cached(ctx, set)
	return s, err
}

func (c *Controller) placement(ctx context.Context, namespace string, ref workv1alpha1.LocalPlacementReference) (placement, error) {
	placed, err := selection.Place(ctx, c.client, c.rule, types.NamespacedName{Namespace: namespace, Name: ref.Name})
	return placement{name: ref.Name, strategy: ref.RolloutStrategy, Placed: placed}, err
}
