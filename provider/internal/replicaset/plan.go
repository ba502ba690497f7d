package replicaset

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// What is checked and decided of a replica set while planning.

// ValidateConfig implements resource.ResourceWithValidateConfig.
func (r *replicaSetResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var namespace, name types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("namespace"), &namespace)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("name"), &name)...)
	checkReplicaSetLabel(namespace, name, &resp.Diagnostics)
	content := workload.Of(ctx, req.Config, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(content.Check()...)
		manifestwork.CheckOptions(ctx, req.Config, content, &resp.Diagnostics)
	}
}

// ModifyPlan keeps the old wording of manifests and placements where the new one
// means the same, and what the hub reports where nothing changes.
func (r *replicaSetResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	if !req.State.Raw.IsNull() {
		keepWording(ctx, req, resp, "placements", func(a, b types.List) bool { return samePlacements(ctx, a, b) })
	}
	defer func() { workload.Of(ctx, resp.Plan, &diag.Diagnostics{}).MaskWith(ctx, req.Config, &resp.Diagnostics) }()
	changed := workload.Plan(ctx, req, resp)
	if resp.Diagnostics.HasError() {
		return
	}
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	writes := changes.Beyond(local...)
	workload.PlanReports(ctx, req, resp, changed || changes.In(specified...), map[string]attr.Value{
		"summary": types.ObjectUnknown(summaryType().AttrTypes), "placement_summaries": types.ListUnknown(placementSummaryType()),
		"conditions": types.ListUnknown(manifestwork.WorkConditionType()), "rolled_out": types.BoolUnknown(),
	})
	if !writes {
		return
	}
	r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model replicaSetModel
		diags.Append(from.Get(ctx, &model)...)
		object := model.complete(ctx, req.Config, diags)
		return model.owned(object), !diags.HasError()
	})
	for i, d := range resp.Diagnostics {
		if strings.Contains(d.Detail(), work.RefusedReplicaSet) {
			resp.Diagnostics[i] = diag.NewErrorDiagnostic(d.Summary(), "The hub makes no works of replica sets. "+replicaSetGateRemedy())
		}
	}
}

// specified are the attributes that make the replica set's specification, beside
// its objects; local are those that the hub knows nothing of.
var (
	specified = []string{"delete_option", "manifest_configs", "executor", "placements", "cascade_deletion_policy"}
	local     = []string{"wait", "ready", "summary", "placement_summaries", "conditions", "rolled_out", "generation", "field_validation", "force_conflicts", "timeouts"}
)

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
