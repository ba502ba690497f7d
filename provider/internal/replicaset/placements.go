package replicaset

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
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

func placementsField() attribute.Field[replicaSet] {
	s := schema.ListNestedAttribute{
		MarkdownDescription: "Placements in the same namespace; each of their clusters gets a work. A cluster that " +
			"two of them select gets two.",
		Required:   true,
		Validators: []validator.List{placementRefsValidator{"at least one placement, each named once"}},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"name": attribute.Required("Name of the placement.", attribute.ValidName("placement name")),
			"rollout_strategy": workload.RolloutAttribute("If omitted, it goes to all of them at once and waits "+
				"forever. A cluster is done when its work is applied and its condition `Progressing` is `False`, and "+
				"has failed when `Progressing` and `Degraded` are both `True`. "+
				"muster's agents report both for the usual kinds by default; agents of other hubs need "+
				"`condition_rules` that yield `Progressing`, "+
				"and on those hubs a rollout without them stops after its first clusters.",
				"If omitted, or greater than the number of these clusters, it is no limit."),
		}},
	}
	return attribute.Model("placements", s,
		func(models []placementRefModel, to replicaSet) { to.Spec.PlacementRefs = placementRefs(models) },
		func(from replicaSet) []placementRefModel { return placementRefModels(from.Spec.PlacementRefs) }).
		At("spec.placementRefs").Keeping(keepPlacementRefs)
}

func placementRefs(models []placementRefModel) []workv1alpha1.LocalPlacementReference {
	var refs []workv1alpha1.LocalPlacementReference
	for _, m := range models {
		refs = append(refs, workv1alpha1.LocalPlacementReference{
			Name: m.Name.ValueString(), RolloutStrategy: m.RolloutStrategy.Strategy(),
		})
	}
	return refs
}

func placementRefModels(refs []workv1alpha1.LocalPlacementReference) []placementRefModel {
	models := []placementRefModel{}
	for _, ref := range refs {
		models = append(models, placementRefModel{
			Name: types.StringValue(ref.Name), RolloutStrategy: workload.RolloutModelOf(ref.RolloutStrategy),
		})
	}
	return models
}

// keepPlacementRefs are placements in the wording of prior for those that mean the same.
func keepPlacementRefs(prior, placements attr.Value) attr.Value {
	before, _ := prior.(types.List)
	after, _ := placements.(types.List)
	elements := after.Elements()
	for i, element := range elements {
		now := attribute.As[placementRefModel](element)
		for _, own := range before.Elements() {
			was := attribute.As[placementRefModel](own)
			same := workload.SameRollout(was.RolloutStrategy.Strategy(), now.RolloutStrategy.Strategy())
			if was.Name.Equal(now.Name) && same {
				elements[i] = own
				break
			}
		}
	}
	return types.ListValueMust(after.ElementType(context.Background()), elements)
}

// keepPlacements plans the placements as they are in the state where that means the same.
func keepPlacements(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var planned, prior types.List
	at := path.Root("placements")
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, at, &planned)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, at, &prior)...)
	if !resp.Diagnostics.HasError() && attribute.Known(planned) && keepPlacementRefs(prior, planned).Equal(prior) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, at, prior)...)
	}
}
