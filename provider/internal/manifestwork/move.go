package manifestwork

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

var _ resource.ResourceWithMoveState = (*manifestWorkResource)(nil)

// MoveState implements resource.ResourceWithMoveState.
func (r *manifestWorkResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *workv1.ManifestWork) (crud.Model, error) {
		m, err := importWork(object)
		return &m, err
	})
}
