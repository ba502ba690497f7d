package addon

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/fleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// What is decided of an add-on while planning. As for a placement, nothing that was
// read from the live fleet becomes a known value of the plan: it is told in a warning.

// plannedModel is what the last change was expected to do.
type plannedModel struct {
	PlannedClusters types.List `tfsdk:"planned_clusters"`
	PlannedAdded    types.List `tfsdk:"planned_added"`
	PlannedDropped  types.List `tfsdk:"planned_dropped"`
}

func nothingPlanned() plannedModel {
	null := types.ListNull(types.StringType)
	return plannedModel{PlannedClusters: null, PlannedAdded: null, PlannedDropped: null}
}

// local are the attributes that are not written to the hub.
func local() []string {
	return []string{
		"preview", "wait", "ready", "adopt", "force_conflicts", "timeouts",
		"install_progressions", "rolled_out", "installed_clusters", "planned_clusters", "planned_added", "planned_dropped",
	}
}

// placing are the attributes that say where an add-on is installed, and who installs it.
func placing() []string { return []string{"name", "placements", "managed_by"} }

// ModifyPlan plans what the hub reports, tells where a change installs the add-on and
// from where it removes it, and asks the hub what would come of it.
func (r *addOnResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	r.NoteCreation(ctx, req, &v1alpha1.ClusterManagementAddOn{}, "name")
	var wait types.Object
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("wait"), &wait)...)
	unmet, isNew := false, req.State.Raw.IsNull()
	if !isNew {
		var ready types.Bool
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("ready"), &ready)...)
		unmet = !wait.IsNull() && !ready.ValueBool()
		keepPlacements(ctx, req, resp)
		crud.KeepReported(req, resp, "ready", "install_progressions", "rolled_out", "installed_clusters", "planned_clusters", "planned_added", "planned_dropped")
	}
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	writes, moves := changes.Beyond(local()...), changes.In(placing()...)
	if writes || unmet || changes.In("wait") {
		ready := types.BoolUnknown()
		if wait.IsNull() {
			ready = types.BoolNull()
		}
		for name, value := range map[string]any{
			"ready": ready, "install_progressions": types.ListUnknown(progressionType()), "rolled_out": types.BoolUnknown(),
			"installed_clusters": types.ListUnknown(types.StringType),
		} {
			resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), value)...)
		}
	}
	planExpected(ctx, req, resp, isNew || moves)
	if !writes || resp.Diagnostics.HasError() {
		return
	}
	r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model addOnModel
		diags.Append(from.Get(ctx, &model)...)
		return model.owned(model.object()), !diags.HasError()
	})
	if moves {
		r.warnOfMoves(ctx, req, resp)
	}
}

// keepPlacements plans the placements as they are in the state where that means the
// same.
func keepPlacements(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var planned, prior types.List
	at := path.Root("placements")
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, at, &planned)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, at, &prior)...)
	if resp.Diagnostics.HasError() || planned.IsNull() || prior.IsNull() || !attribute.Known(planned) {
		return
	}
	strategies := func(list types.List) (out []v1alpha1.PlacementStrategy) {
		var models []placementModel
		resp.Diagnostics.Append(list.ElementsAs(ctx, &models, false)...)
		for _, m := range models {
			out = append(out, m.strategy())
		}
		return out
	}
	if samePlacements(strategies(planned), strategies(prior)) && !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, at, prior)...)
	}
}

// planExpected plans what a change is expected to do: what the configuration says about
// it, or what is only known when the change is written.
func planExpected(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, moves bool) {
	var expected, before, placements types.List
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("planned_clusters"), &expected)...)
	resp.Diagnostics.Append(resp.Plan.GetAttribute(ctx, path.Root("placements"), &placements)...)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("installed_clusters"), &before)...)
	}
	if !moves || resp.Diagnostics.HasError() {
		return
	}
	unknown := types.ListUnknown(types.StringType)
	p := plannedModel{PlannedClusters: unknown, PlannedAdded: unknown, PlannedDropped: unknown}
	switch {
	case !expected.IsNull() && attribute.Known(expected):
		p = p.from(attribute.StringList(before), attribute.StringList(expected))
	case !expected.IsNull():
		p.PlannedClusters = expected
	case placements.IsNull():
		p = nothingPlanned()
	}
	for name, value := range map[string]types.List{"planned_clusters": p.PlannedClusters, "planned_added": p.PlannedAdded, "planned_dropped": p.PlannedDropped} {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), value)...)
	}
}

// from is what is planned when the add-on goes from some clusters to others.
func (plannedModel) from(before, after []string) plannedModel {
	added, dropped := fleet.Difference(before, after)
	return plannedModel{
		PlannedClusters: attribute.StringListValue(after), PlannedAdded: attribute.StringListValue(added), PlannedDropped: attribute.StringListValue(dropped),
	}
}
