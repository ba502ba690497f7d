package workload

import (
	"context"
	"errors"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
)

// What is decided of the content while planning.

// Plan keeps the objects' old wording where the new one means the same, and lists
// their fields. It reports whether the objects change.
func Plan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) bool {
	before := None()
	planned := Of(ctx, req.Config, &resp.Diagnostics)
	creating := req.State.Raw.IsNull()
	if !creating {
		before = Of(ctx, req.State, &resp.Diagnostics)
	}
	if resp.Diagnostics.HasError() {
		return false
	}
	switch empty := planned.isEmpty(); {
	case empty && !before.imported():
		resp.Diagnostics.AddError("No object", noObject)
		return false
	case empty:
		resp.Diagnostics.AddWarning("Objects that the configuration does not have",
			"The configuration has neither manifests nor objects nor manifests_wo, so the objects stay as they were "+
				"imported. Terraform leaves out of generated configuration what may be secret: add the objects to "+
				"manifests or manifests_wo.")
	}
	planned = planned.Keeping(before)
	fields, err := planned.Planned(before)
	if err != nil && !errors.Is(err, ErrUnknown) {
		resp.Diagnostics.AddError("Invalid manifest", attribute.Capitalize(err.Error())+".")
		return false
	}
	planned.Fields = fields
	same := !creating && planned.Same(before)
	if same && planned.SensitiveFields.Equal(before.SensitiveFields) && planned.Manifests.Equal(before.Manifests) {
		fields = before.Fields // As it was read, also by earlier versions.
	}
	planned.Fields = fields
	values := attribute.Values{}
	planned.keep(values)
	for name, value := range values {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), value)...)
	}
	return !same
}

// PlanReports plans what is only known after the write: the generation, when the
// specification changes, and whether the wait is met, when one is due. What is reported
// stays as it was read last, unless the apply waits for other reports. Attributes in
// current say something of the present specification, so that none of an earlier one stays.
func PlanReports(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
	respecified bool, reported []string, current ...string,
) {
	var waits, waited types.Object
	var was types.Bool
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("wait"), &waits)...)
	creating := req.State.Raw.IsNull()
	if !creating {
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("wait"), &waited)...)
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("ready"), &was)...)
		crud.KeepReported(req, resp, slices.Concat([]string{"ready", "generation"}, reported, current)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	unmet := !was.IsNull() && !was.ValueBool()
	var open []string
	if respecified {
		open = append(current, "generation")
	}
	switch {
	case waits.IsNull():
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("ready"), types.BoolNull())...)
	case respecified || unmet || !waits.Equal(waited):
		open = append(open, "ready")
	}
	if creating || (respecified || unmet) && !waits.IsNull() {
		open = slices.Concat(open, reported, current)
	}
	crud.PlanUnknown(resp, open...)
}
