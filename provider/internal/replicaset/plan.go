package replicaset

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
)

// What is checked and decided of a replica set while planning.

func validate(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	var namespace, name types.String
	diags.Append(config.GetAttribute(ctx, path.Root("namespace"), &namespace)...)
	diags.Append(config.GetAttribute(ctx, path.Root("name"), &name)...)
	checkReplicaSetLabel(namespace, name, diags)
	content := workload.Of(ctx, config, diags)
	if !diags.HasError() {
		diags.Append(content.Check()...)
		manifestwork.CheckOptions(ctx, config, content, diags)
	}
}

// plan keeps the old wording of manifests and placements where the new one means the
// same, and what the hub reports where nothing changes.
func plan(ctx context.Context, _ *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) bool {
	if req.Plan.Raw.IsNull() {
		return false
	}
	if !req.State.Raw.IsNull() {
		keepWording(ctx, req, resp, "placements", func(a, b types.List) bool { return samePlacements(ctx, a, b) })
	}
	changed := workload.Plan(ctx, req, resp)
	if resp.Diagnostics.HasError() {
		return false
	}
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	workload.PlanReports(ctx, req, resp, changed || changes.In(specified...), map[string]attr.Value{
		"summary":             types.ObjectUnknown(summaryType().AttrTypes),
		"placement_summaries": types.ListUnknown(placementSummaryType()),
		"conditions":          types.ListUnknown(manifestwork.WorkConditionType()),
		"rolled_out":          types.BoolUnknown(),
	}, "rolled_out")
	return changed || changes.Beyond(append([]string{"fields"}, local...)...)
}

// specified are the attributes that make the replica set's specification, beside
// its objects; local are those that the hub knows nothing of.
var (
	specified = []string{"delete_option", "manifest_configs", "executor", "placements", "cascade_deletion_policy"}
	local     = []string{"wait", "ready", "summary", "placement_summaries", "conditions", "rolled_out", "generation", "field_validation", "sensitive_fields", "force_conflicts", "timeouts"}
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
