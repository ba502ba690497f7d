package clusterimport

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// What is checked and decided of an import while planning.

// validate refuses options that no agent can have, and a trust that needs no
// certificates beside certificates.
func validate(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	var agent, endpoint types.Object
	diags.Append(config.GetAttribute(ctx, path.Root("agent"), &agent)...)
	diags.Append(config.GetAttribute(ctx, path.Root("endpoint"), &endpoint)...)
	if diags.HasError() {
		return
	}
	if attribute.Known(agent) {
		klusterlet.CheckAgentOptions(agent.Attributes(), path.Root("agent"), diags)
	}
	trust, _ := endpoint.Attributes()["trust"].(types.String)
	ca, _ := endpoint.Attributes()["cluster_ca_certificate"].(types.String)
	if trust.ValueString() == string(v1alpha1.TrustSystem) && ca.ValueString() != "" {
		at := path.Root("endpoint").AtName("cluster_ca_certificate")
		diags.AddAttributeError(at, "Certificates that are not used",
			attribute.Place(at)+" is set, and endpoint.trust is \"System\", with which the agent verifies the hub "+
				"by the authorities of its image alone. Remove one of them.")
	}
}

// local are the attributes that are not written to the hub.
func local() []string { return append(table().Unwritten(), "adopt", "force_conflicts", "timeouts") }

// handsIn reports whether an update hands the kubeconfig in: for a change of what is
// installed or of how the cluster joins, for a new number, and where the hub needs it.
func handsIn(changes attribute.Changes, needed bool) bool {
	return needed || changes.In("kubeconfig_wo_version") || changes.Beyond(append(local(), "labels", "annotations")...)
}

// plan plans what the hub reports, and returns whether to ask the hub what would come of
// the change.
func plan(ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) bool {
	if req.Plan.Raw.IsNull() {
		warnWhatStays(ctx, req, resp)
		return false
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
		unmet = !wait.IsNull() && !ready.IsNull() && !ready.ValueBool()
		crud.KeepReported(req, resp, append(statusTable().Unwritten(), "ready")...)
	}
	if resp.Diagnostics.HasError() {
		return false
	}
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	if req.State.Raw.IsNull() || handsIn(changes, false) {
		checkKubeconfig(content, &resp.Diagnostics)
	}
	writes := changes.Beyond(local()...)
	reports := writes || unmet || changes.In("kubeconfig_wo_version") || needed.ValueBool() && !content.IsNull()
	if reports || changes.In("wait") {
		planReported(ctx, wait.IsNull(), reports, resp)
	}
	return writes && !lacksKind(ctx, r, req, resp)
}

// checkKubeconfig refuses a kubeconfig that is about to be handed in and that a hub would
// refuse. It never repeats the content. One that is not handed in is not looked at: a
// destroy, before which Terraform plans as usual, needs none.
func checkKubeconfig(content types.String, diags *diag.Diagnostics) {
	if content.IsNull() || content.IsUnknown() {
		return
	}
	if why := problemsOfKubeconfig(content.ValueString()); why != "" {
		diags.AddAttributeError(path.Root("kubeconfig_wo"), "Invalid kubeconfig", attribute.Place(path.Root("kubeconfig_wo"))+": "+why)
	}
}

// planReported plans whether the wait is met, and with reports what the hub will report,
// as not known yet.
func planReported(ctx context.Context, waitless, reports bool, resp *resource.ModifyPlanResponse) {
	ready := types.BoolUnknown()
	if waitless {
		ready = types.BoolNull()
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("ready"), ready)...)
	if !reports {
		return
	}
	for name, a := range statusTable().Attributes() {
		var unknown attr.Value = types.BoolUnknown()
		if a.GetType().Equal(types.StringType) {
			unknown = types.StringUnknown()
		}
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), unknown)...)
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
// asked, the apply fails.
func lacksKind(
	ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
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
	resp.Diagnostics.AddError("The hub imports no clusters", fmt.Sprintf("The hub %s does not serve the kind "+
		"ClusterImport. %s\n\n"+
		"Where Terraform can reach the cluster itself, muster_klusterlet installs the agent, with "+
		"every hub.", client.Host(), hub.ImportNeeds))
	return true
}

// warnWhatStays warns that destroying an import does not make the cluster leave.
func warnWhatStays(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var name, uid types.String
	if req.State.Raw.IsNull() || req.State.GetAttribute(ctx, path.Root("name"), &name).HasError() ||
		req.State.GetAttribute(ctx, path.Root("installed_cluster_uid"), &uid).HasError() || uid.ValueString() == "" {
		return
	}
	resp.Diagnostics.AddWarning(fmt.Sprintf("The agent stays in the cluster: cluster import %q", name.ValueString()),
		fmt.Sprintf("The hub no longer changes the agent of %q, and deletes the kubeconfig if it has one. "+
			"The agent and the managed cluster stay, and go on. To let the cluster go, and remove the agent from it: "+
			"muster detach %[1]s --cluster-kubeconfig FILE.", name.ValueString()))
}
