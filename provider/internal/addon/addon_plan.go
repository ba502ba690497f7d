package addon

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
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

// Where an add-on would be installed, as its placements select now.

// prediction is where an add-on is, and where it would be.
type prediction struct {
	// before have it, after would have it. Both are sorted.
	before, after []string
	// missing are placements that the hub does not have, as namespace/name.
	missing []string
}

// added and dropped are how the two differ.
func (f *prediction) difference() (added, dropped []string) {
	return hub.ClusterChanges(f.before, f.after)
}

// predict asks the hub where the placements would install an add-on.
func predict(ctx context.Context, h *hub.Hub, client *kube.Client, object fleetAddOn) (*prediction, error) {
	addOns, err := inClusters(ctx, client, object.Name)
	if err != nil {
		return nil, err
	}
	f := &prediction{}
	for _, x := range addOns {
		if x.DeletionTimestamp == nil {
			f.before = append(f.before, x.Namespace)
		}
	}
	f.after, f.missing, err = chosen(ctx, h, client, object)
	return f, err
}

// chosen are the clusters that the placements of an add-on select, or will select when
// the hub has scheduled them, sorted, and the placements that the hub does not have.
func chosen(
	ctx context.Context, h *hub.Hub, client *kube.Client, object fleetAddOn,
) (clusters, missing []string, err error) {
	snapshot, err := h.LiveFleet(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, ref := range object.Spec.InstallStrategy.Placements {
		placement := &clusterv1beta1.Placement{}
		switch err := client.Get(ctx, placement, ref.Namespace, ref.Name); {
		case kube.IsNotFound(err, ref.Name): // It selects nothing.
			missing = append(missing, ref.Namespace+"/"+ref.Name)
		case err != nil:
			return nil, nil, err
		default:
			clusters = append(clusters, selectedBy(snapshot, placement)...)
		}
	}
	return slices.Compact(attribute.Sorted(clusters)), missing, nil
}

// selectedBy are the clusters that a placement of the hub selects, or will select when
// the hub has scheduled it. One that is not scheduled keeps its decisions.
func selectedBy(snapshot *hub.Fleet, placement *clusterv1beta1.Placement) []string {
	if placement.Annotations[cluster.SchedulingDisabledAnnotation] != "true" {
		return snapshot.Preview(placement, false).Clusters
	}
	var clusters []string
	for name := range snapshot.Input(placement).Selected {
		clusters = append(clusters, name)
	}
	return clusters
}

// warnOfMoves warns of the clusters that a planned change gives the add-on and takes it
// from, if the hub answers and all that matters is known.
func warnOfMoves(
	ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	plan := attribute.ValuesOf(ctx, resp.Plan, &resp.Diagnostics)
	off := previewIsOff(plan) || plan.Text("managed_by") == managedBySelf || !plan.IsSet("placements")
	if resp.Diagnostics.HasError() || off || !attribute.Known(plan["placements"]) ||
		plan["name"].IsUnknown() || plan["managed_by"].IsUnknown() {
		return
	}
	client := r.Hub.PlanClient()
	if client == nil || r.Hub.HasWritten() {
		return // In an apply, the plan has warned.
	}
	object := &v1alpha1.ClusterManagementAddOn{}
	object.Name = plan.Text("name")
	addOnTable().Write(attribute.Values{"placements": plan["placements"]}, object)
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	f, err := predict(ctx, r.Hub, client, object)
	if err != nil {
		r.Hub.DidNotAnswer(err)
		return // A plan needs no hub, and no right to read the fleet.
	}
	if summary, detail := f.warning(fmt.Sprintf("add-on %q", object.Name), req.State.Raw.IsNull()); summary != "" {
		resp.Diagnostics.AddAttributeWarning(path.Root("placements"), summary, detail)
	}
}

func previewIsOff(plan attribute.Values) bool { return plan.IsSet("preview") && !plan.Bool("preview") }

// shownClusters is how many clusters a diagnostic lists.
const shownClusters = 20

// warning describes what a change does, or is empty. Of a new add-on whose placements
// are still to be created nothing is said, unless it takes something away.
func (f *prediction) warning(what string, isNew bool) (summary, detail string) {
	added, dropped := f.difference()
	if len(dropped) == 0 && (len(added) == 0 || isNew && len(f.missing) > 0) && (isNew || len(f.missing) == 0) {
		return "", ""
	}
	summary = fmt.Sprintf("%s would be installed in %d and removed from %d "+
		"clusters", attribute.Capitalize(what), len(added), len(dropped))
	var lines []string
	list := func(verb string, names []string) {
		if len(names) > 0 {
			lines = append(lines, fmt.Sprintf("%s %s.", verb, some(names)))
		}
	}
	for _, placement := range f.missing {
		lines = append(lines, fmt.Sprintf("The hub has no placement %q, and one that does not exist selects "+
			"nothing. Unless this apply creates it before the add-on, correct the name: the apply is refused if it "+
			"would remove the add-on for that reason. Where a placement gets another name, give it "+
			"create_before_destroy, or the add-on is gone in between.", placement))
	}
	list("It would be installed in", added)
	list("It would be removed, with all that it has there, from", dropped)
	if len(dropped) > 0 {
		lines = append(lines, "The hub removes an add-on from every cluster that its placements do not select, also "+
			"where it was installed by hand.")
	}
	lines = append(lines, "This is computed from the present fleet, which may change before the apply. preview = "+
		"false turns this warning off.")
	return summary, attribute.JoinLines(lines)
}

// some lists the first names, and how many more there are.
func some(names []string) string { return text.List(names, shownClusters) }

// expect looks, right before a change is written, at what it is going to do. A change
// that would remove the add-on because a placement is missing is refused.
func expect(ctx context.Context, c *addOnChange) bool {
	if c.Prior != nil && !c.Changes.In(placing()...) {
		return true
	}
	plan, host, diags := c.Plan, c.Client.Host(), c.Diagnostics
	planned := allPlanned(types.ListNull(types.StringType))
	defer func() { // Only what the plan has left open.
		for name, value := range planned {
			if plan[name].IsUnknown() {
				plan[name] = value
			}
		}
	}()
	if len(c.Object.Spec.InstallStrategy.Placements) == 0 || plan.Text("managed_by") == managedBySelf {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	f, err := predict(ctx, c.Hub, c.Client, c.Object)
	if err != nil {
		return true // The write will tell, if that matters.
	}
	if _, dropped := f.difference(); len(f.missing) > 0 && len(dropped) > 0 {
		diags.AddAttributeError(path.Root("placements"), "Missing placement of "+c.What,
			fmt.Sprintf("The hub %s has no placement %s. One that does not exist selects nothing, so the hub would "+
				"remove the add-on from %s. Nothing was changed.\n\n"+
				"Correct the name, or refer to the placement's resource (muster_placement.NAME.name), so that it is "+
				"created first. To remove the add-on from these clusters, take the placement out of placements.",
				host, strings.Join(f.missing, ", "), some(dropped)))
		return false
	}
	if len(f.missing) > 0 {
		diags.AddAttributeWarning(path.Root("placements"), "Missing placement of "+c.What,
			fmt.Sprintf("The hub %s has no placement %s, so it installs the add-on in none of its clusters until it "+
				"is there. If another apply does not create it, correct the name.",
				host, strings.Join(f.missing, ", ")))
	}
	given, _ := plan["planned_clusters"].(types.List)
	switch {
	case !given.IsNull() && !given.IsUnknown():
		planned = plannedFrom(f.before, attribute.StringList(given))
	case !previewIsOff(plan):
		planned = plannedFrom(f.before, append([]string{}, f.after...))
	}
	return true
}
