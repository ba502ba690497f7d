package replicaset

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// Where a replica set's works go.

type placementRefModel struct {
	Name            types.String           `tfsdk:"name"`
	RolloutStrategy *workload.RolloutModel `tfsdk:"rollout_strategy"`
}

func placementRefsAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: "Placements in the same namespace; each of their clusters gets a work. A cluster that " +
			"two of them select gets two.",
		Required:   true,
		Validators: []validator.List{placementRefsValidator{"at least one placement, each named once"}},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				MarkdownDescription: "Name of the placement.",
				Required:            true,
				Validators:          []validator.String{attribute.ValidName("placement name")},
			},
			"rollout_strategy": workload.RolloutAttribute("If omitted, it goes to all of them at once and waits forever. "+
				"A cluster is done when its work is applied and its condition `Progressing` is `False`, and has failed when `Progressing` and `Degraded` are both `True`. "+
				"muster's agents report both for the usual kinds by default; agents of other hubs need `condition_rules` that yield `Progressing`, "+
				"and on those hubs a rollout without them stops after its first clusters.",
				"If omitted, or greater than the number of these clusters, it is no limit."),
		}},
	}
}

func placementRefs(models []placementRefModel) []workv1alpha1.LocalPlacementReference {
	var refs []workv1alpha1.LocalPlacementReference
	for _, m := range models {
		refs = append(refs, workv1alpha1.LocalPlacementReference{Name: m.Name.ValueString(), RolloutStrategy: m.RolloutStrategy.Strategy()})
	}
	return refs
}

// placementRefModels describes the references. Where one of own means the same,
// its wording is kept.
func placementRefModels(refs []workv1alpha1.LocalPlacementReference, own []placementRefModel) []placementRefModel {
	models := []placementRefModel{}
	for _, ref := range refs {
		model := placementRefModel{Name: types.StringValue(ref.Name), RolloutStrategy: workload.RolloutModelOf(ref.RolloutStrategy)}
		for _, m := range own {
			if m.Name.ValueString() == ref.Name && workload.SameRollout(m.RolloutStrategy.Strategy(), ref.RolloutStrategy) {
				model = m
				break
			}
		}
		models = append(models, model)
	}
	return models
}

// samePlacementRefs reports whether two lists mean the same, whatever the
// notation.
func samePlacementRefs(a, b []placementRefModel) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name.ValueString() != b[i].Name.ValueString() || !workload.SameRollout(a[i].RolloutStrategy.Strategy(), b[i].RolloutStrategy.Strategy()) {
			return false
		}
	}
	return true
}
