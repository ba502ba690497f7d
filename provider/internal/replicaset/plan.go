package replicaset

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
)

// What is checked and decided of a replica set while planning.

// ValidateConfig implements resource.ResourceWithValidateConfig.
func (r *replicaSetResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var namespace, name types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("namespace"), &namespace)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("name"), &name)...)
	checkReplicaSetLabel(namespace, name, &resp.Diagnostics)
}

// ModifyPlan keeps the old wording of manifests and placements where the new one
// means the same, and what the hub reports where nothing changes.
func (r *replicaSetResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var waits types.Object
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("wait"), &waits)...)
	ready := types.BoolUnknown()
	if waits.IsNull() {
		ready = types.BoolNull()
	}
	if req.State.Raw.IsNull() {
		r.dryRun(ctx, req, resp)
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("ready"), ready)...)
		planFields(ctx, resp, types.ListNull(types.StringType), types.MapNull(manifestwork.FieldsElement()))
		return
	}
	var was types.Bool
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("ready"), &was)...)
	keepWording(ctx, req, resp, "manifests", manifestwork.SameManifests)
	keepWording(ctx, req, resp, "placements", func(a, b types.List) bool { return samePlacements(ctx, a, b) })
	var manifests types.List
	var fields types.Map
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("manifests"), &manifests)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("fields"), &fields)...)
	planFields(ctx, resp, manifests, fields)
	var state replicaSetStatusModel
	for name, value := range map[string]any{
		"summary": &state.Summary, "placement_summaries": &state.PlacementSummaries, "conditions": &state.Conditions, "rolled_out": &state.RolledOut,
	} {
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root(name), value)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	planStatus(ctx, resp, was, state)
	r.dryRun(ctx, req, resp)
	unmet := !waits.IsNull() && !was.IsNull() && !was.ValueBool()
	if unmet || !resp.Plan.Raw.Equal(req.State.Raw) {
		planStatus(ctx, resp, ready, replicaSetStatusModel{
			Summary:            types.ObjectUnknown(summaryType().AttrTypes),
			PlacementSummaries: types.ListUnknown(placementSummaryType()),
			Conditions:         types.ListUnknown(manifestwork.WorkConditionType()),
			RolledOut:          types.BoolUnknown(),
		})
	}
}

// dryRun asks the hub what would come of the change.
func (r *replicaSetResource) dryRun(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model replicaSetModel
		diags.Append(from.Get(ctx, &model)...)
		object, err := model.object()
		return model.owned(object), err == nil && !diags.HasError()
	})
}

// planStatus plans what the hub will report.
func planStatus(ctx context.Context, resp *resource.ModifyPlanResponse, ready types.Bool, status replicaSetStatusModel) {
	for name, value := range map[string]any{
		"ready": ready, "summary": status.Summary, "placement_summaries": status.PlacementSummaries, "conditions": status.Conditions, "rolled_out": status.RolledOut,
	} {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), value)...)
	}
}

// planFields plans the fields of the planned manifests, which follow upon before.
func planFields(ctx context.Context, resp *resource.ModifyPlanResponse, before types.List, past types.Map) {
	var manifests types.List
	resp.Diagnostics.Append(resp.Plan.GetAttribute(ctx, path.Root("manifests"), &manifests)...)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("fields"), manifestFields(manifests, before, past))...)
	}
}

// keepWording plans a list as it is in the state where that means the same.
func keepWording(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, name string, same func(a, b types.List) bool) {
	var planned, prior types.List
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(name), &planned)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root(name), &prior)...)
	if !resp.Diagnostics.HasError() && same(planned, prior) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), prior)...)
	}
}

// samePlacements reports whether two lists of placements, both known, mean the
// same.
func samePlacements(ctx context.Context, a, b types.List) bool {
	if a.IsNull() || b.IsNull() || !attribute.Known(a) || !attribute.Known(b) {
		return false
	}
	var x, y []placementRefModel
	return !a.ElementsAs(ctx, &x, false).HasError() && !b.ElementsAs(ctx, &y, false).HasError() && samePlacementRefs(x, y)
}
