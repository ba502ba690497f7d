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
// value of the plan: it is told in a warning. What the plan does know follows
// from the configuration and the state alone, which are the same both times.

// planPlacement keeps what the hub reports where nothing changes, plans a wait where
// one is due, and warns of what a change does to the selection.
func planPlacement(
	ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	if req.Plan.Raw.IsNull() {
		return false
	}
	plan, state := plannedPlacement(ctx, req, resp)
	if resp.Diagnostics.HasError() {
		return false
	}
	waits := types.ObjectNull(nil)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("wait"), &waits)...)
	ready := types.BoolUnknown()
	if waits.IsNull() {
		ready = types.BoolNull()
	}
	changes := plan == nil || state == nil || !attribute.Same(plan.scheduled(), state.scheduled())
	if state != nil {
		// What the framework made unknown because something else changes.
		crud.KeepReported(req, resp, "ready", "selected_clusters", "planned_clusters", "planned_added", "planned_dropped")
		unmet := !waits.IsNull() && !state.Ready.IsNull() && !state.Ready.ValueBool()
		if !unmet && resp.Plan.Raw.Equal(req.State.Raw) {
			return false
		}
	}
	writes := !resp.Plan.Raw.Equal(req.State.Raw)
	var expected types.List
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("planned_clusters"), &expected)...)
	planChoice(ctx, resp, ready, choiceAfter(state, expected, changes, !waits.IsNull()))
	if plan == nil || !changes || resp.Diagnostics.HasError() {
		return writes
	}
	if state == nil || !state.Namespace.Equal(plan.Namespace) || !state.Name.Equal(plan.Name) {
		return writes // Terraform plans again, for a new placement.
	}
	// The apply plans again, and what is planned first has to be reported once.
	read, _ := r.Hub.WasRead(&clusterv1beta1.Placement{}, plan.Namespace.ValueString(), plan.Name.ValueString())
	if read {
		resp.Diagnostics.Append(warnOfChange(ctx, r, plan)...)
	}
	return writes
}

// plannedPlacement reads plan and state. The plan is nil while some of what the
// scheduler reads is unknown, and the state when there is none.
func plannedPlacement(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) (plan, state *placementModel) {
	if !req.State.Raw.IsNull() {
		state = &placementModel{}
		resp.Diagnostics.Append(req.State.Get(ctx, state)...)
	}
	var whole types.Object
	resp.Diagnostics.Append(req.Config.Get(ctx, &whole)...)
	if resp.Diagnostics.HasError() {
		return nil, nil
	}
	for name, value := range whole.Attributes() {
		// The rest does not bear on the selection, or is read by itself.
		if !slices.Contains([]string{"labels", "wait", "timeouts", "adopt", "force_conflicts", "planned_clusters"}, name) && !attribute.Known(value) {
			return nil, state
		}
	}
	plan = &placementModel{}
	targets := map[string]any{"namespace": &plan.Namespace, "name": &plan.Name, "annotations": &plan.Annotations, "preview": &plan.Preview}
	for _, field := range specFields() {
		targets[field.name] = field.target(&plan.placementSpecModel)
	}
	for name, target := range targets {
		resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(name), target)...)
	}
	return plan, state
}

// scheduled is what the scheduler reads of the placement.
func (m *placementModel) scheduled() *clusterv1beta1.Placement {
	object := &clusterv1beta1.Placement{Spec: m.spec()}
	object.Namespace, object.Name = m.Namespace.ValueString(), m.Name.ValueString()
	if m.schedulingDisabled() {
		object.Annotations = map[string]string{cluster.SchedulingDisabledAnnotation: "true"}
	}
	return object
}

func (m *placementModel) schedulingDisabled() bool {
	return attribute.StringMap(m.Annotations)[cluster.SchedulingDisabledAnnotation] == "true"
}

// choiceAfter is what is planned of a placement's choice. state is nil for a new
// placement. expected is what the configuration says about it; changes tells that
// the selection may change, and waits that the apply waits for it.
func choiceAfter(state *placementModel, expected types.List, changes, waits bool) placementChoiceModel {
	unknown := types.ListUnknown(types.StringType)
	choice := placementChoiceModel{SelectedClusters: unknown, PlannedClusters: unknown, PlannedAdded: unknown, PlannedDropped: unknown}
	if state != nil && !changes {
		choice = state.placementChoiceModel
		if waits {
			choice.SelectedClusters = unknown
		}
		if !state.PlannedClusters.IsNull() || expected.IsNull() {
			return choice
		}
	}
	if expected.IsNull() {
		return choice
	}
	choice.PlannedClusters = expected
	var before []string
	switch {
	case !attribute.Known(expected):
		choice.PlannedAdded, choice.PlannedDropped = unknown, unknown
		return choice
	case state != nil && state.SelectedClusters.IsNull():
		choice.PlannedAdded, choice.PlannedDropped = types.ListNull(types.StringType), types.ListNull(types.StringType)
		return choice
	case state != nil:
		before = attribute.StringList(state.SelectedClusters)
	}
	added, dropped := hub.ClusterChanges(before, attribute.StringList(expected))
	choice.PlannedAdded, choice.PlannedDropped = attribute.StringListValue(added), attribute.StringListValue(dropped)
	return choice
}

func planChoice(
	ctx context.Context, resp *resource.ModifyPlanResponse, ready types.Bool, choice placementChoiceModel,
) {
	for name, value := range map[string]any{
		"ready": ready, "selected_clusters": choice.SelectedClusters,
		"planned_clusters": choice.PlannedClusters, "planned_added": choice.PlannedAdded, "planned_dropped": choice.PlannedDropped,
	} {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), value)...)
	}
}

// warnOfChange warns of the effect of a change on the selection, if the hub
// answers. Of a new placement nothing is said: the same apply is likely to make the
// sets and clusters that it selects from, and nobody loses anything.
func warnOfChange(ctx context.Context, r *crud.Resource, plan *placementModel) diag.Diagnostics {
	var diags diag.Diagnostics
	if !plan.previews() || r.Hub == nil || r.Hub.IsUnknown() {
		return diags
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	snapshot, err := r.Hub.LiveFleet(ctx)
	if err != nil {
		return diags // A plan needs no hub.
	}
	preview := snapshot.Preview(plan.scheduled(), false)
	if summary, detail := changeWarning(plan.what(), preview); summary != "" {
		diags.AddWarning(summary, detail)
	}
	return diags
}

// previews reports whether a plan previews the placement's selection.
func (m *placementModel) previews() bool {
	return (m.Preview.IsNull() || m.Preview.ValueBool()) && !m.schedulingDisabled()
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
	summary = fmt.Sprintf("%s would add %d and drop %d of its "+
		"clusters", attribute.Capitalize(what), len(p.Added), len(p.Dropped))
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
