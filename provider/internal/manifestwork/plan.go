package manifestwork

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
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

// specified are the attributes that make the work's specification, beside its
// objects; local are those that the hub knows nothing of.
var (
	specified = []string{"delete_option", "manifest_configs", "executor"}
	local     = []string{"placement", "wait", "ready", "conditions", "feedback", "generation", "force_conflicts", "timeouts"}
)
