package manifestwork

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// What is checked and decided of a work while planning.

// ValidateConfig checks the objects of all inputs together: what the hub or the
// agent would refuse later.
func (r *manifestWorkResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	content := workload.Of(ctx, req.Config, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(content.Check()...)
	CheckOptions(ctx, req.Config, content, &resp.Diagnostics)
}

// ModifyPlan keeps the objects' old wording where the new one means the same,
// lists their fields, and plans a wait where one is due.
func (r *manifestWorkResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	defer func() { workload.Of(ctx, resp.Plan, &diag.Diagnostics{}).MaskWith(ctx, req.Config, &resp.Diagnostics) }()
	changed := workload.Plan(ctx, req, resp)
	if resp.Diagnostics.HasError() {
		return
	}
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	writes := changes.Beyond(local...)
	if respecified := changed || changes.In(specified...); respecified {
		warnOfComplete(ctx, req, resp)
	}
	workload.PlanReports(ctx, req, resp, changed || changes.In(specified...), map[string]attr.Value{
		"conditions": types.ListUnknown(WorkConditionType()), "feedback": types.ListUnknown(feedbackType()),
	})
	if !writes {
		return
	}
	r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model manifestWorkModel
		diags.Append(from.Get(ctx, &model)...)
		object := model.complete(ctx, req.Config, diags)
		return model.owned(object), !diags.HasError()
	})
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
		if c.Type.ValueString() == work.ConditionComplete && c.Status.ValueString() == string(metav1.ConditionTrue) && canComplete(ManifestConfigs(plan.ManifestConfigs)) {
			resp.Diagnostics.AddWarning("The change will not be applied: "+plan.What(), finished)
		}
	}
}

// specified are the attributes that make the work's specification, beside its
// objects; local are those that the hub knows nothing of.
var (
	specified = []string{"delete_option", "manifest_configs", "executor"}
	local     = []string{"placement", "wait", "ready", "conditions", "feedback", "generation", "field_validation", "force_conflicts", "timeouts"}
)
