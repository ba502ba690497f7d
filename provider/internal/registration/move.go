package registration

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
)

var _ resource.ResourceWithMoveState = (*bootstrapTokenResource)(nil)

// MoveState implements resource.ResourceWithMoveState.
func (r *bootstrapTokenResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *corev1.Secret) (crud.Model, error) {
		for key, text := range object.StringData {
			if object.Data == nil {
				object.Data = map[string][]byte{}
			}
			object.Data[key] = []byte(text)
		}
		if object.Name != tokenSecretName(tokenOf(object).ID) {
			return nil, fmt.Errorf("the Secret %q is no bootstrap token: it is not named after its token-id", object.Name)
		}
		return importToken(object), nil
	})
}
