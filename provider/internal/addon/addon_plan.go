package addon

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
)

// What is decided of an add-on while planning. As for a placement, nothing that was
// read from the live fleet becomes a known value of the plan: a warning says it.

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
	if !req.State.Raw.IsNull() {
		crud.KeepReported(req, resp, "planned_clusters", "planned_added", "planned_dropped")
	}
	if !attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw).In(placing()...) {
		return true
	}
	planExpected(ctx, req, resp)
	if !resp.Diagnostics.HasError() {
		warnOfMoves(ctx, r, req, resp)
	}
	return true
}

// planExpected plans what a change is expected to do: what the configuration says about
// it, or what is only known when the change is written.
func planExpected(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var expected, before, placements types.List
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("planned_clusters"), &expected)...)
	resp.Diagnostics.Append(resp.Plan.GetAttribute(ctx, path.Root("placements"), &placements)...)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("installed_clusters"), &before)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	planned := allPlanned(types.ListUnknown(types.StringType))
	switch {
	case !expected.IsNull() && attribute.Known(expected):
		planned = plannedFrom(attribute.StringList(before), attribute.StringList(expected))
	case !expected.IsNull():
		planned["planned_clusters"] = expected
	case placements.IsNull():
		planned = allPlanned(types.ListNull(types.StringType))
	}
	for name, value := range planned {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), value)...)
	}
}

// allPlanned is one value for all that the last change was expected to do.
func allPlanned(value types.List) attribute.Values {
	return attribute.Values{"planned_clusters": value, "planned_added": value, "planned_dropped": value}
}

// plannedFrom is what is planned when the add-on goes from some clusters to others.
func plannedFrom(before, after []string) attribute.Values {
	added, dropped := hub.ClusterChanges(before, after)
	return attribute.Values{
		"planned_clusters": attribute.StringListValue(after),
		"planned_added":    attribute.StringListValue(added),
		"planned_dropped":  attribute.StringListValue(dropped),
	}
}

// fillPlanned sets what the plan has left open.
func fillPlanned(plan, planned attribute.Values) {
	for name, value := range planned {
		if plan[name].IsUnknown() {
			plan[name] = value
		}
	}
}
