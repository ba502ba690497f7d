package clusterimport

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/agentoptions"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// What is checked and decided of an import while planning.

// ValidateConfig refuses options that no agent can have, and a trust that needs no
// certificates beside certificates.
func (r *importResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var agent, endpoint types.Object
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("agent"), &agent)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("endpoint"), &endpoint)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if attribute.Known(agent) {
		agentoptions.Check(agent.Attributes(), path.Root("agent"), &resp.Diagnostics)
	}
	trust, _ := endpoint.Attributes()["trust"].(types.String)
	ca, _ := endpoint.Attributes()["cluster_ca_certificate"].(types.String)
	if trust.ValueString() == string(v1alpha1.TrustSystem) && ca.ValueString() != "" {
		at := path.Root("endpoint").AtName("cluster_ca_certificate")
		resp.Diagnostics.AddAttributeError(at, "Certificates that are not used",
			attribute.Place(at)+" is set, and endpoint.trust is \"System\", with which the agent verifies the hub by the authorities of its image alone. Remove one of them.")
	}
}

// local are the attributes that are not written to the hub.
func local() []string {
	return append(reported(), "kubeconfig_wo", "kubeconfig_wo_version", "wait", "ready", "adopt", "force_conflicts", "timeouts")
}

// handsIn reports whether an update hands the kubeconfig in: for a change of what is
// installed or of how the cluster joins, for a new number, and where the hub needs it.
func handsIn(changes attribute.Changes, needed types.Bool) bool {
	return needed.ValueBool() || changes.In("kubeconfig_wo_version") || changes.Beyond(append(local(), "labels", "annotations")...)
}

// ModifyPlan plans what the hub reports, and asks the hub what would come of the
// change.
func (r *importResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		tellWhatStays(ctx, req, resp)
		return
	}
	nameSecret(ctx, req, resp)
	var wait types.Object
	var content types.String
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("wait"), &wait)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("kubeconfig_wo"), &content)...)
	unmet, needed := false, types.BoolNull()
	if !req.State.Raw.IsNull() {
		var ready types.Bool
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("ready"), &ready)...)
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("kubeconfig_needed"), &needed)...)
		unmet = !wait.IsNull() && !ready.ValueBool()
		crud.KeepReported(req, resp, append(reported(), "ready")...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	writes := changes.Beyond(local()...)
	if writes || unmet || changes.In("wait", "kubeconfig_wo_version") || needed.ValueBool() && !content.IsNull() {
		planReported(ctx, wait.IsNull(), resp)
	}
	if !writes || r.lacksKind(ctx, req, resp) {
		return
	}
	r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model importModel
		diags.Append(from.Get(ctx, &model)...)
		return model.owned(model.object()), !diags.HasError()
	})
}

// planReported plans what the hub will report as not known yet.
func planReported(ctx context.Context, waitless bool, resp *resource.ModifyPlanResponse) {
	ready := types.BoolUnknown()
	if waitless {
		ready = types.BoolNull()
	}
	for name, value := range map[string]attr.Value{
		"ready": ready, "installed": types.BoolUnknown(), "joined": types.BoolUnknown(), "kubeconfig_needed": types.BoolUnknown(),
		"installed_cluster_uid": types.StringUnknown(), "problem": types.StringUnknown(),
	} {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), value)...)
	}
}

// nameSecret plans the Secret's name where the configuration leaves it out.
func nameSecret(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var secret, name types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("kubeconfig_secret"), &secret)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("name"), &name)...)
	if secret.IsNull() && !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("kubeconfig_secret"), name)...)
	}
}

// lacksKind refuses to create an import on a hub that has none. Where the hub can't be
// asked, the apply tells.
func (r *importResource) lacksKind(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) bool {
	client := r.Hub.PlanClient()
	if !req.State.Raw.IsNull() || client == nil || r.Hub.HasWritten() {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	if has, err := r.Hub.Has(asking, client, hubinfo.ClusterImport); err != nil {
		r.Hub.DidNotAnswer(err)
		return false
	} else if has {
		return false
	}
	var name types.String
	if req.Plan.GetAttribute(ctx, path.Root("name"), &name).HasError() || name.IsUnknown() {
		name = types.StringValue("any")
	}
	err := client.Get(asking, &v1alpha1.ClusterImport{}, "", name.ValueString())
	if !kube.IsKindNotServed(err) {
		return false
	}
	resp.Diagnostics.AddError("The hub imports no clusters", fmt.Sprintf("The hub %s does not serve the kind ClusterImport. %s\n\n"+
		"Where Terraform can reach the cluster itself, muster_klusterlet installs the agent, with every hub.", client.Host(), hub.ImportNeeds))
	return true
}

// tellWhatStays tells that destroying an import does not make the cluster leave.
func tellWhatStays(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var state importModel
	if req.State.Raw.IsNull() || req.State.Get(ctx, &state).HasError() || state.InstalledClusterUID.ValueString() == "" {
		return
	}
	resp.Diagnostics.AddWarning("The agent stays in the cluster: "+state.What(),
		fmt.Sprintf("The hub no longer changes the agent of %q, and deletes the kubeconfig if it has one. The agent and the managed cluster stay, and go on. "+
			"To let the cluster go: muster detach %[1]s, and delete the agent's namespace in the cluster.", state.Name.ValueString()))
}
