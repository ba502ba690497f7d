package crud

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
)

// Follow is what comes after an object was written: the wait for it, if the
// configuration asks for one, and the attributes that the hub fills in.
type Follow struct {
	// Attribute is the kind's attribute wait.
	Attribute WaitAttribute
	// Wait waits, and returns what to report if it was not met. It is nil where the
	// configuration asks for no wait.
	Wait func(waiting context.Context) (summary, problem string)
	// Settle is optional: it gives the hub a moment to report where there is no wait.
	Settle func(waiting context.Context)
	// Ready is the attribute that says whether the wait was met. It is unknown where the
	// plan asks for the wait.
	Ready *types.Bool
	// Report takes over what was seen last, after Wait and after Settle.
	Report func()
	// keep takes over what Ready has become, for kinds whose model does not hold it.
	keep func()
}

// Created saves the plan, waits, and saves it again. It is saved before the wait, so
// that an interruption does not lose the object. A wait that is not met only warns:
// an error would make Terraform destroy the object and create it again. waiting ends
// with the timeout.
func (f Follow) Created(ctx, waiting context.Context, plan Model, resp *resource.CreateResponse) {
	due := f.begin()
	Save(ctx, plan, &resp.State, resp.Identity, &resp.Diagnostics)
	summary, problem := f.run(waiting, due)
	resp.Diagnostics.Append(resp.State.Set(ctx, stored(plan))...)
	if problem != "" {
		text := "The " + f.Attribute.Kind + " stays as it is, and the next apply waits again. " +
			"This run succeeds all the same, because Terraform would destroy what an error leaves behind. To make it " +
			"fail, "
		if f.Attribute.Failing != "" {
			text += "wait with " + f.Attribute.Failing + ", or "
		}
		resp.Diagnostics.AddWarning(summary, problem+"\n\n"+text+"add a lifecycle postcondition on self.ready.")
	}
}

// Updated waits and saves the plan. A wait that is not met is an error. waiting ends
// with the timeout.
func (f Follow) Updated(ctx, waiting context.Context, plan Model, resp *resource.UpdateResponse) {
	if summary, problem := f.run(waiting, f.begin()); problem != "" {
		resp.Diagnostics.AddError(summary, problem)
	}
	Save(ctx, plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

// begin fills in Ready for as long as the wait is not met, and reports whether to wait.
func (f Follow) begin() bool {
	due := f.Wait != nil && f.Ready.IsUnknown()
	switch {
	case f.Wait == nil:
		*f.Ready = types.BoolNull()
	case due:
		*f.Ready = types.BoolValue(false)
	}
	f.kept()
	return due
}

func (f Follow) kept() {
	if f.keep != nil {
		f.keep()
	}
}

func (f Follow) run(waiting context.Context, due bool) (summary, problem string) {
	switch {
	case due:
		summary, problem = f.Wait(waiting)
		*f.Ready = types.BoolValue(problem == "")
		f.kept()
	case f.Wait == nil && f.Settle != nil:
		f.Settle(waiting)
	default:
		return "", ""
	}
	if f.Report != nil {
		f.Report()
	}
	return summary, problem
}

// StayReady brings the attribute ready of values up to date at a refresh, as StillReady
// says.
func StayReady(values attribute.Values, met func() bool) {
	was, _ := values["ready"].(types.Bool)
	values["ready"] = StillReady(was, values.IsSet("wait"), met)
}

// StillReady is the attribute ready at a refresh: null without a wait, and once it was
// met, it stays so.
func StillReady(was types.Bool, waits bool, met func() bool) types.Bool {
	switch {
	case !waits:
		return types.BoolNull()
	case was.ValueBool():
		return was
	}
	return types.BoolValue(met())
}
