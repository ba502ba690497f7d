package workload

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Kind says of a kind that brings objects to clusters where it has them, and what holds
// for them. The kind's own table has the attributes of Table.
type Kind[O kube.Object] struct {
	Template func(O) *workv1.ManifestsTemplate
	Rules    Rules
}

// Live is the content of an object as the hub has it.
func (k Kind[O]) Live(object O) Live {
	return Live{Manifests: k.Template(object).Manifests, Annotations: object.GetAnnotations()}
}

// Hooks write and read the content, and hide what is secret in it.
func (k Kind[O]) Hooks() crud.Hooks[O] {
	return crud.Hooks[O]{
		Own:  func(_ attribute.Values, o *crud.Owned) { o.Discreet = true }, // The manifests may hold secrets.
		Mask: Mask,
		Complete: func(
			ctx context.Context, values attribute.Values, config tfsdk.Config, object O, diags *diag.Diagnostics,
		) {
			ContentOf(values).Put(ctx, k.Rules, config, object, k.Template(object), diags)
		},
		AlsoRead: func(_ context.Context, _ *kube.Client, values attribute.Values, object O) error {
			content := ContentOf(values)
			err := content.Observe(k.Live(object))
			content.keep(values)
			return err
		},
		Imported: func(values attribute.Values, object O) error {
			content, err := Import(k.Live(object))
			content.keep(values)
			return err
		},
	}
}
