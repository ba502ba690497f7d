package namespace

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
)

var _ resource.ResourceWithMoveState = (*namespaceResource)(nil)

// MoveState implements resource.ResourceWithMoveState.
func (r *namespaceResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *corev1.Namespace) (crud.Model, error) {
		return importNamespace(object), refused(object)
	})
}
