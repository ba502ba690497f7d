package clusterset

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

var _ resource.ResourceWithMoveState = (*managedClusterSetResource)(nil)

// MoveState implements resource.ResourceWithMoveState.
func (r *managedClusterSetResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *clusterv1beta2.ManagedClusterSet) (crud.Model, error) {
		return importSet(object), nil
	})
}

var _ resource.ResourceWithMoveState = (*managedClusterSetBindingResource)(nil)

// MoveState implements resource.ResourceWithMoveState.
func (r *managedClusterSetBindingResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *clusterv1beta2.ManagedClusterSetBinding) (crud.Model, error) {
		return importBinding(object), nil
	})
}
