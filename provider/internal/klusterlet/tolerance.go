package klusterlet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
)

// What muster_klusterlet does about a cluster in which the agent can't be
// installed.
const (
	onFailureFail     = "fail"
	onFailureContinue = "continue"
)

// neverInstalledKey is where the private state notes that no attempt to install the
// agent has succeeded yet.
const neverInstalledKey = "never-installed"

// tolerantKlusterlet lets an agent that can't be installed be no error, where that
// is asked for. Terraform stops everything that depends on any instance of a
// resource when one instance fails, so an error in one cluster would hold up all
// others of a fleet.
type tolerantKlusterlet struct{ klusterletResource }

// Create implements resource.Resource.
func (r *tolerantKlusterlet) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	r.klusterletResource.Create(ctx, req, resp)
	nothing := resp.State.Raw.IsNull()
	if tolerate(ctx, req.Plan, &resp.State, attempted{unwritten: nothing}, &resp.Diagnostics) {
		if nothing {
			resp.Diagnostics.Append(resp.Private.SetKey(ctx, neverInstalledKey, []byte("true"))...)
		}
		identify(ctx, req.Plan, resp.Identity, &resp.Diagnostics)
	}
}

// noProblems says that an attempt went well.
func noProblems() types.List { return attribute.StringListValue([]string{}) }

// failed reports whether the last attempt did.
func (m *klusterletModel) failed() bool { return len(m.Problems.Elements()) > 0 }

// identify gives a resource its identity, which an attempt that failed left out.
func identify(ctx context.Context, plan tfsdk.Plan, identity *tfsdk.ResourceIdentity, diags *diag.Diagnostics) {
	var model klusterletModel
	diags.Append(plan.Get(ctx, &model)...)
	diags.Append(identity.Set(ctx, model.identity())...)
}

// Update implements resource.Resource.
func (r *tolerantKlusterlet) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var was types.List
	var joined types.Bool
	before := resp.State.Raw
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("problems"), &was)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("joined"), &joined)...)
	if len(was.Elements()) > 0 {
		// The bootstrap kubeconfig of the attempt that failed may not have arrived.
		number := path.Root("bootstrap_kubeconfig_wo_version")
		resp.Diagnostics.Append(req.State.SetAttribute(ctx, number, types.Int64Null())...)
	}
	r.klusterletResource.Update(ctx, req, resp)
	attempt := attempted{unwritten: resp.State.Raw.Equal(before), joined: joined.ValueBool()}
	switch {
	case tolerate(ctx, req.Plan, &resp.State, attempt, &resp.Diagnostics):
		identify(ctx, req.Plan, resp.Identity, &resp.Diagnostics)
	case !resp.Diagnostics.HasError():
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, neverInstalledKey, []byte("false"))...)
	}
}

// Delete forgets an agent that never came into its cluster, if that can't be
// reached now either.
func (r *tolerantKlusterlet) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	never, diags := req.Private.GetKey(ctx, neverInstalledKey)
	resp.Diagnostics.Append(diags...)
	r.klusterletResource.Delete(ctx, req, resp)
	if string(never) != "true" || !resp.Diagnostics.HasError() {
		return
	}
	var name types.String
	_ = req.State.GetAttribute(ctx, path.Root("cluster_name"), &name) // Delete has read it, too.
	_, reasons := warned(resp.Diagnostics)
	resp.Diagnostics = nil
	resp.Diagnostics.AddWarning(fmt.Sprintf("Nothing was removed from cluster %q", name.ValueString()),
		fmt.Sprintf("The agent's installation there never succeeded, and it can't be looked "+
			"for now: %s", strings.Join(reasons, "\n")))
}

// attempted is an attempt to install or change the agent.
type attempted struct {
	// unwritten says that it left the state as it was.
	unwritten bool
	// joined says that the cluster had joined before.
	joined bool
}

// offlineDiagnostic is the error about a cluster that does not answer at an address at
// which it did before.
type offlineDiagnostic struct{ diag.Diagnostic }

// isOffline reports whether this is why an attempt failed.
func isOffline(diags diag.Diagnostics) bool {
	return slices.ContainsFunc(diags, func(d diag.Diagnostic) bool { _, ok := d.(offlineDiagnostic); return ok })
}

// tolerate settles what became of an attempt. Where the plan says to continue, an
// error becomes a warning, and the state is as planned but for the problem.
// tolerate reports whether it made the error a warning.
func tolerate(ctx context.Context, plan tfsdk.Plan, state *tfsdk.State, a attempted, diags *diag.Diagnostics) bool {
	var onFailure types.String
	diags.Append(plan.GetAttribute(ctx, path.Root("on_failure"), &onFailure)...)
	problems, installed := noProblems(), types.BoolValue(true)
	failed, offline := diags.HasError(), isOffline(*diags)
	if failed {
		if onFailure.ValueString() != onFailureContinue {
			return false
		}
		reached := state.Raw
		if a.unwritten {
			reached = plan.Raw
		}
		type value = tftypes.Value
		raw, err := tftypes.Transform(reached, func(_ *tftypes.AttributePath, v value) (value, error) {
			if v.IsKnown() {
				return v, nil
			}
			return tftypes.NewValue(v.Type(), nil), nil
		})
		if err != nil {
			diags.AddError("Cannot record why the agent is not installed", err.Error())
			return false
		}
		state.Raw = raw
		var reasons []string
		*diags, reasons = warned(*diags)
		problems, installed = attribute.StringListValue(reasons), types.BoolValue(!a.unwritten)
	}
	diags.Append(state.SetAttribute(ctx, path.Root("problems"), problems)...)
	diags.Append(state.SetAttribute(ctx, path.Root("offline"), offline)...)
	if a.unwritten && failed {
		diags.Append(state.SetAttribute(ctx, path.Root("joined"), a.joined)...)
	}
	var now types.Bool
	diags.Append(state.GetAttribute(ctx, path.Root("installed"), &now)...)
	if failed || now.IsUnknown() {
		diags.Append(state.SetAttribute(ctx, path.Root("installed"), installed)...)
	}
	return failed
}

// warned are the diagnostics with all errors made warnings, and what these say.
func warned(diags diag.Diagnostics) (warnings diag.Diagnostics, reasons []string) {
	for _, d := range diags {
		if d.Severity() != diag.SeverityError {
			warnings = append(warnings, d)
			continue
		}
		reasons = append(reasons, fmt.Sprintf("%s: %s", d.Summary(), d.Detail()))
		warnings.AddWarning(d.Summary(), d.Detail()+"\n\nThe apply continues with everything else, and the next "+
			"apply tries this again (on_failure = \"continue\").")
	}
	return warnings, reasons
}
