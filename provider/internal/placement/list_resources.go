package placement

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/list"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

// NewScoreListResource lists scores of clusters.
func NewScoreListResource() list.ListResource {
	return crud.NewList(crud.List[*clusterv1alpha1.AddOnPlacementScore]{
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
