package placement

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

var _ resource.ResourceWithMoveState = (*placementResource)(nil)

// MoveState implements resource.ResourceWithMoveState.
func (r *placementResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *clusterv1beta1.Placement) (crud.Model, error) {
		m := importPlacement(object)
		return &m, nil
	})
}

var _ resource.ResourceWithMoveState = (*placementScoreResource)(nil)

// MoveState implements resource.ResourceWithMoveState.
func (r *placementScoreResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *clusterv1alpha1.AddOnPlacementScore) (crud.Model, error) {
		m := importPlacementScore(object)
		return &m, nil
	})
}
