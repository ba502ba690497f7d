package addon

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
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

// placing are the attributes that say where an add-on is installed, and who installs it.
func placing() []string { return []string{"name", "placements", "managed_by"} }

// planAddOn plans what a change is expected to do, and warns of where it installs the
// add-on and from where it removes it.
func planAddOn(
	ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	if req.Plan.Raw.IsNull() {
		return false
	}
	moves := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw).In(placing()...)
	planExpected(ctx, req, resp, moves)
	if moves && !resp.Diagnostics.HasError() {
		warnOfMoves(ctx, r, req, resp)
	}
	return true
}

// keepPlacements plans the placements as they are in the state where that means the
// same.
func keepPlacements(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	crud.KeepReported(req, resp, "planned_clusters", "planned_added", "planned_dropped")
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
	added, dropped := hub.ClusterChanges(before, after)
	return plannedModel{
		PlannedClusters: attribute.StringListValue(after), PlannedAdded: attribute.StringListValue(added), PlannedDropped: attribute.StringListValue(dropped),
	}
}
