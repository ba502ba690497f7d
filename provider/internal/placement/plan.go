package placement

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// What is decided of a placement while planning.
//
// Terraform plans twice: for the plan that it shows, and once more right before
// it writes. Values that the first plan knew have to be the same in the second,
// or it stops with an error. The fleet may change in between, not least by the
// same apply. So nothing that was read from the live fleet may become a known
// value of the plan: a warning says it. What the plan does know follows
// from the configuration and the state alone, which are the same both times.

// planPlacement plans the choice of a placement, and warns of what a change does to it.
func planPlacement(
	ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	if req.Plan.Raw.IsNull() || resp.Plan.Raw.Equal(req.State.Raw) || resp.Diagnostics.HasError() {
		return false
	}
	planned := attribute.ValuesOf(ctx, resp.Plan, &resp.Diagnostics)
	prior := attribute.ValuesOf(ctx, req.State, &resp.Diagnostics)
	var expected types.List
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("planned_clusters"), &expected)...)
	known := decidable(planned)
	changes := !known || len(prior) == 0 || !attribute.Same(scheduled(planned), scheduled(prior))
	for name, value := range choiceAfter(prior, expected, changes, planned["ready"].IsUnknown()) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), value)...)
	}
	if !known || !changes || len(prior) == 0 || keyOf(planned) != keyOf(prior) {
		return true // Where it is replaced, Terraform plans again, for a new one.
	}
	// The apply plans again, and what is planned first has to be reported once.
	read, _ := r.Hub.WasRead(&clusterv1beta1.Placement{}, planned.Text("namespace"), planned.Text("name"))
	if read {
		resp.Diagnostics.Append(warnOfChange(ctx, r, planned)...)
	}
	return true
}

// decidable reports whether all is known that bears on the selection.
func decidable(plan values) bool {
	return !slices.ContainsFunc(append(selection().Names(), "namespace", "name", "annotations", "preview"),
		func(name string) bool { return !attribute.Known(plan[name]) })
}

// keyOf names a placement.
func keyOf(v values) string { return v.Text("namespace") + "/" + v.Text("name") }

// scheduled is what the scheduler reads of a placement.
func scheduled(v values) placement {
	object := &clusterv1beta1.Placement{}
	object.Namespace, object.Name = v.Text("namespace"), v.Text("name")
	selection().Write(v, object)
	if schedulingDisabled(v) {
		object.Annotations = map[string]string{cluster.SchedulingDisabledAnnotation: "true"}
	}
	return object
}

func schedulingDisabled(v values) bool {
	annotations, _ := v["annotations"].(types.Map)
	return attribute.StringMap(annotations)[cluster.SchedulingDisabledAnnotation] == "true"
}

// choiceAfter is what is planned of a placement's choice. state is empty for a new
// placement. expected is what the configuration says about it; changes says that
// the selection may change, and waits that the apply waits for it.
func choiceAfter(state values, expected types.List, changes, waits bool) values {
	unknown, none := types.ListUnknown(types.StringType), types.ListNull(types.StringType)
	after := values{}
	for _, name := range choice().Names() {
		after[name] = unknown
	}
	if len(state) > 0 && !changes {
		for name := range after {
			after[name] = state[name]
		}
		if waits {
			after["selected_clusters"] = unknown
		}
		if state.IsSet("planned_clusters") {
			return after
		}
	}
	if expected.IsNull() {
		return after
	}
	after["planned_clusters"] = expected
	switch {
	case !attribute.Known(expected):
		after["planned_added"], after["planned_dropped"] = unknown, unknown
	case len(state) > 0 && !state.IsSet("selected_clusters"):
		after["planned_added"], after["planned_dropped"] = none, none
	default:
		before, _ := state["selected_clusters"].(types.List)
		added, dropped := hub.ClusterChanges(attribute.StringList(before), attribute.StringList(expected))
		after["planned_added"] = attribute.StringListValue(added)
		after["planned_dropped"] = attribute.StringListValue(dropped)
	}
	return after
}

// warnOfChange warns of the effect of a change on the selection, if the hub
// answers. Of a new placement nothing is said: the same apply is likely to make the
// sets and clusters that it selects from, and nobody loses anything.
func warnOfChange(ctx context.Context, r *crud.Resource, plan values) (diags diag.Diagnostics) {
	if r.Hub == nil || r.Hub.IsUnknown() {
		return nil
	}
	preview, ok := predict(ctx, r.Hub, plan)
	if !ok {
		return nil // A plan needs no hub.
	}
	if summary, detail := changeWarning(fmt.Sprintf("placement %q", keyOf(plan)), preview); summary != "" {
		diags.AddWarning(summary, detail)
	}
	return diags
}

// predict is what the fleet makes of a plan at the moment. ok is false where no preview is
// wanted, and where the hub does not answer at once.
func predict(ctx context.Context, h *hub.Hub, plan values) (preview hub.Preview, ok bool) {
	if plan.IsSet("preview") && !plan.Bool("preview") || schedulingDisabled(plan) {
		return preview, false
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	snapshot, err := h.LiveFleet(ctx)
	if err != nil {
		return preview, false
	}
	return snapshot.Preview(scheduled(plan), false), true
}

// shownClusters is how many clusters a diagnostic lists.
const shownClusters = 20

// changeWarning describes the effect of a change, or is empty.
func changeWarning(what string, p hub.Preview) (summary, detail string) {
	if len(p.Added)+len(p.Dropped) == 0 {
		return "", ""
	}
	var lines []string
	list := func(verb string, names []string) {
		if len(names) > 0 {
			lines = append(lines, fmt.Sprintf("%s %s: %s.", verb, counted(len(names)), text.List(names, shownClusters)))
		}
	}
	summary = fmt.Sprintf("%s would add %d and drop %d of its clusters",
		attribute.Capitalize(what), len(p.Added), len(p.Dropped))
	list("It would add", p.Added)
	list("It would drop", p.Dropped)
	lines = append(lines, fmt.Sprintf("That leaves it with %s.", counted(len(p.Clusters))))
	if c := p.Misconfigured(); c != "" {
		lines = append(lines, "The placement is misconfigured: "+c)
	} else if c := p.Satisfied(); c.Status != metav1.ConditionTrue {
		lines = append(lines, fmt.Sprintf("The placement would not be satisfied (%s): %s.", c.Reason, c.Message))
	}
	lines = append(lines, "This is computed from the present fleet, which may change before the apply. "+
		"preview = false turns this warning off, and the data source muster_placement_preview explains the selection.")
	return summary, attribute.JoinLines(lines)
}

func counted(n int) string {
	switch n {
	case 0:
		return "no cluster"
	case 1:
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", n)
}
