package replicaset

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

var _ resource.ResourceWithMoveState = (*replicaSetResource)(nil)

// MoveState implements resource.ResourceWithMoveState.
func (r *replicaSetResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *workv1alpha1.ManifestWorkReplicaSet) (crud.Model, error) {
		m, err := importReplicaSet(object)
		return &m, err
	})
}
