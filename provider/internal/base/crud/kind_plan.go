package crud

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// ModifyPlan plans what the hub reports, and asks the hub what would come of the change.
func (r *kindResource[M, O]) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	k, writes := r.kind, true
	if k.Part == nil {
		r.NoteCreation(ctx, req, k.Empty, k.keyNames()...)
	}
	defer func() { r.mask(ctx, resp.Plan, req.Config, &resp.Diagnostics) }()
	if !req.Plan.Raw.IsNull() {
		if k.KeepWording != nil && !req.State.Raw.IsNull() {
			k.KeepWording(ctx, req, resp)
		}
		if k.Model == nil && !req.State.Raw.IsNull() {
			k.keepWording(ctx, req, resp)
		}
		if k.Waits != nil {
			writes = k.leaveOpen(ctx, req, resp)
		}
	}
	if k.Plan != nil && !k.Plan(ctx, &r.Resource, req, resp) || !writes {
		return
	}
	r.DryRun(ctx, req, resp, func(from Getter, diags *diag.Diagnostics) (Owned, bool) {
		i := instanceOf(ctx, k, from, diags)
		if diags.HasError() {
			return Owned{}, false
		}
		o := k.owned(i)
		if object, ok := o.Write.Object.(O); ok && k.Complete != nil {
			k.Complete(ctx, i.model, req.Config, object, diags)
		}
		return o, !diags.HasError()
	})
}

// keepWording plans attributes of the table as they are in the state where that means the
// same.
func (k *Kind[M, O]) keepWording(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	var planned, prior types.Object
	resp.Diagnostics.Append(resp.Plan.Get(ctx, &planned)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	fresh := func() O {
		object, _ := kube.Fresh(k.Empty).(O)
		return object
	}
	for name, value := range k.Table.Kept(planned.Attributes(), prior.Attributes(), fresh) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), value)...)
	}
}

// leaveOpen plans what is only known after the apply, and reports whether the plan
// writes to the hub.
func (k *Kind[M, O]) leaveOpen(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) (writes bool) {
	var wait types.Object
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("wait"), &wait)...)
	reported := append(k.Table.Reports(), k.Waits.Reported...)
	unmet := false
	if !req.State.Raw.IsNull() {
		var ready types.Bool
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("ready"), &ready)...)
		unmet = !wait.IsNull() && !ready.IsNull() && !ready.ValueBool()
		KeepReported(req, resp, append([]string{"ready"}, reported...)...)
	}
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	writes = changes.Beyond(append(k.unwritten(), "adopt", "force_conflicts")...)
	again := unmet || changes.In(k.Waits.Again...)
	if writes || again || changes.In("wait") {
		ready := types.BoolUnknown()
		if wait.IsNull() {
			ready = types.BoolNull()
		}
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("ready"), ready)...)
	}
	if writes || again { // What was reported stays when only a wait is new, as after an import.
		PlanUnknown(resp, reported...)
	}
	return writes
}

// PlanUnknown plans attributes as known after the apply.
func PlanUnknown(resp *resource.ModifyPlanResponse, attributes ...string) {
	var planned map[string]tftypes.Value
	if err := resp.Plan.Raw.As(&planned); err != nil {
		resp.Diagnostics.AddError("Cannot read the plan", err.Error())
		return
	}
	for _, name := range attributes {
		planned[name] = tftypes.NewValue(planned[name].Type(), tftypes.UnknownValue)
	}
	resp.Plan.Raw = tftypes.NewValue(resp.Plan.Raw.Type(), planned)
}
