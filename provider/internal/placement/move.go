package placement

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

var _ resource.ResourceWithMoveState = (*placementScoreResource)(nil)

// MoveState implements resource.ResourceWithMoveState.
func (r *placementScoreResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *clusterv1alpha1.AddOnPlacementScore) (crud.Model, error) {
		m := importPlacementScore(object)
		return &m, nil
	})
}
