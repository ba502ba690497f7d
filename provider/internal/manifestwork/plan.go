package manifestwork

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// What is checked and decided of a work while planning.

// validate checks the objects of all inputs together: what the hub or the agent would
// refuse later.
func validate(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	content := workload.Of(ctx, config, diags)
	if diags.HasError() {
		return
	}
	diags.Append(content.Check()...)
	CheckOptions(ctx, config, content, diags)
}

// plan keeps the objects' old wording where the new one means the same, lists their
// fields, plans a wait where one is due, and has the hub check the complete work.
func plan(ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) bool {
	if req.Plan.Raw.IsNull() {
		var state manifestWorkModel
		if !req.State.Get(ctx, &state).HasError() && !r.Hub.HasWritten() {
			crud.WarnOfLostCluster(ctx, r.Hub.PlanClient(), state.ManagedCluster.ValueString(), state.What(), &resp.Diagnostics)
		}
		return false
	}
	changed := workload.Plan(ctx, req, resp)
	if resp.Diagnostics.HasError() {
		return false
	}
	warnOfShared(ctx, r.Hub, req, resp)
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	respecified := changed || changes.In(specified...)
	if respecified {
		warnOfComplete(ctx, req, resp)
	}
	workload.PlanReports(ctx, req, resp, respecified, map[string]attr.Value{
		"conditions": types.ListUnknown(WorkConditionType()), "feedback": types.ListUnknown(feedbackType()),
	})
	return changed || changes.Beyond(append([]string{"fields"}, local...)...)
}

// warnOfShared warns of objects that another work of this plan brings to the same
// cluster with another content. The agent would write one over the other.
func warnOfShared(ctx context.Context, h *hub.Hub, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var cluster, name types.String
	if resp.Plan.GetAttribute(ctx, path.Root("managed_cluster"), &cluster).HasError() || resp.Plan.GetAttribute(ctx, path.Root("name"), &name).HasError() ||
		cluster.IsUnknown() || name.IsUnknown() {
		return
	}
	var lines []string
	objects, _ := workload.Of(ctx, req.Config, &diag.Diagnostics{}).Known()
	for _, object := range objects {
		content := sha256.Sum256(object.JSON)
		for _, other := range h.NoteHeld(cluster.ValueString(), name.ValueString(), object.Key(), string(content[:])) {
			lines = append(lines, fmt.Sprintf("  %s, which the work %q holds, too", object, other))
		}
	}
	if len(lines) == 0 || h.HasWritten() {
		return
	}
	resp.Diagnostics.AddWarning(fmt.Sprintf("Held by several works: objects of manifest work %q", cluster.ValueString()+"/"+name.ValueString()),
		fmt.Sprintf("Another work of the cluster %q has the same objects with another content:\n%s\n\n"+
			"The agent would write each over the other, less and less often. Let one work hold an object, or give "+
			"both the same content.",
			cluster.ValueString(), attribute.JoinLines(attribute.Sorted(lines))))
}

// warnOfComplete warns of a change of a work that is Complete, and can be Complete
// again: it is not applied.
func warnOfComplete(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() {
		return
	}
	var plan, state manifestWorkModel
	if req.State.Get(ctx, &state).HasError() || resp.Plan.Get(ctx, &plan).HasError() || state.Name != plan.Name || state.ManagedCluster != plan.ManagedCluster {
		return
	}
	var conditions []struct {
		Type    types.String `tfsdk:"type"`
		Status  types.String `tfsdk:"status"`
		Reason  types.String `tfsdk:"reason"`
		Message types.String `tfsdk:"message"`
	}
	state.Conditions.ElementsAs(ctx, &conditions, false)
	for _, c := range conditions {
		if c.Type.ValueString() == work.ConditionComplete && c.Status.ValueString() == string(metav1.ConditionTrue) && workload.CanComplete(ManifestConfigs(plan.ManifestConfigs)) {
			resp.Diagnostics.AddWarning("The change will not be applied: "+plan.What(), workload.FinishedAdvice)
		}
	}
}

// specified are the attributes that make the work's specification, beside its
// objects; local are those that the hub knows nothing of.
var (
	specified = []string{"delete_option", "manifest_configs", "executor"}
	local     = []string{"placement", "wait", "ready", "conditions", "feedback", "generation", "field_validation", "sensitive_fields", "force_conflicts", "timeouts"}
)
