package replicaset

import (
	"context"

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
	c := workload.Of(ctx, config, diags)
	if !diags.HasError() {
		diags.Append(c.Check(workload.OfWorks())...)
		manifestwork.CheckOptions(ctx, config, c, diags)
	}
}

// plan keeps the old wording of manifests where the new one means the same, and what the
// hub reports where nothing changes.
func plan(
	ctx context.Context, _ *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	if req.Plan.Raw.IsNull() {
		return false
	}
	changed := workload.Plan(ctx, req, resp)
	if resp.Diagnostics.HasError() {
		return false
	}
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	respecified := changed || changes.In(
		"delete_option", "manifest_configs", "executor", "placements", "cascade_deletion_policy")
	workload.PlanReports(ctx, req, resp, respecified,
		[]string{"summary", "placement_summaries", "conditions"}, "rolled_out")
	return changed || changes.Beyond(append(append(specTable(), statusTable()...).Unwritten(),
		"fields", "force_conflicts", "timeouts")...)
}
