package placement

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/list"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/listing"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// NewListResource lists placements.
func NewListResource() list.ListResource {
	return listing.New(listing.Kind[*clusterv1beta1.Placement]{
		Type: "placement", Plural: "placements", Objects: &clusterv1beta1.PlacementList{},
		NamespaceAttribute: "namespace",
		Adopt: func(object *clusterv1beta1.Placement) (crud.Model, error) {
			m := importPlacement(object)
			return &m, nil
		},
		Sets: func(object *clusterv1beta1.Placement) []string { return object.Spec.ClusterSets },
	})
}

// NewScoreListResource lists scores of clusters.
func NewScoreListResource() list.ListResource {
	return listing.New(listing.Kind[*clusterv1alpha1.AddOnPlacementScore]{
		Type: "addon_placement_score", Plural: "placement scores", Objects: &clusterv1alpha1.AddOnPlacementScoreList{},
		About:              "Scores that anything but kubectl has written count as kept by a controller.",
		NamespaceAttribute: "managed_cluster",
		Adopt: func(object *clusterv1alpha1.AddOnPlacementScore) (crud.Model, error) {
			m := importPlacementScore(object)
			return &m, nil
		},
		Generated: writtenByAddOn,
		Cluster:   func(object *clusterv1alpha1.AddOnPlacementScore) string { return object.Namespace },
	})
}

// writtenByAddOn tells by who has written the scores. People do so with kubectl.
func writtenByAddOn(object *clusterv1alpha1.AddOnPlacementScore) bool {
	if names, _ := ownedScores(object); len(names) > 0 {
		return false
	}
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "status" && !strings.HasPrefix(entry.Manager, "kubectl") {
			return true
		}
	}
	return false
}
