package klusterlet

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/connection"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

var (
	_ resource.ResourceWithConfigure   = (*klusterletResource)(nil)
	_ resource.ResourceWithImportState = (*klusterletResource)(nil)
	_ resource.ResourceWithIdentity    = (*klusterletResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*klusterletResource)(nil)

	_ resource.ResourceWithValidateConfig = (*klusterletResource)(nil)
)

const defaultInstall = 5 * time.Minute

type klusterletResource struct {
	crud.Resource
	patience patience
}

type klusterletModel struct {
	OptionsModel

	ClusterName               types.String                 `tfsdk:"cluster_name"`
	Namespace                 types.String                 `tfsdk:"namespace"`
	Connection                types.Object                 `tfsdk:"cluster_connection"`
	Bootstrap                 *registration.BootstrapModel `tfsdk:"bootstrap"`
	BootstrapKubeconfig       types.String                 `tfsdk:"bootstrap_kubeconfig_wo"`
	BootstrapKubeconfigNumber types.Int64                  `tfsdk:"bootstrap_kubeconfig_wo_version"`
	WaitForBootstrap          types.Bool                   `tfsdk:"wait_for_bootstrap"`
	KeepWorksOnDestroy        types.Bool                   `tfsdk:"keep_works_on_destroy"`
	Installed                 types.Bool                   `tfsdk:"installed"`
	Ready                     types.Bool                   `tfsdk:"ready"`
	Joined                    types.Bool                   `tfsdk:"joined"`
	Offline                   types.Bool                   `tfsdk:"offline"`
	ClusterUID                types.String                 `tfsdk:"cluster_uid"`
	OnFailure                 types.String                 `tfsdk:"on_failure"`
	Problems                  types.List                   `tfsdk:"problems"`
	Timeouts                  timeouts.Value               `tfsdk:"timeouts"`
}

type klusterletIdentity struct {
	ClusterName    types.String `tfsdk:"cluster_name"`
	Namespace      types.String `tfsdk:"namespace"`
	KubeconfigPath types.String `tfsdk:"kubeconfig_path"`
	Context        types.String `tfsdk:"context"`
}

// New is muster_klusterlet.
func New() resource.Resource {
	return newWith(patience{stuck: 30 * time.Second, contact: time.Minute})
}

func newWith(p patience) resource.Resource {
	return &tolerantKlusterlet{klusterletResource{patience: p}}
}

func (r *klusterletResource) Metadata(
	_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_klusterlet"
	resp.ResourceBehavior.MutableIdentity = true // a kubeconfig may move
}

func (r *klusterletResource) IdentitySchema(
	_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse,
) {
	s := attribute.IdentitySchema("cluster_name")
	for name, description := range map[string]string{
		"kubeconfig_path": "Kubeconfig file of the managed cluster.",
		"context":         "Context of that kubeconfig; its current one if omitted.",
		"namespace":       "Namespace of the agent; " + cluster.AgentNamespace + " if left out.",
	} {
		s.Attributes[name] = identityschema.StringAttribute{OptionalForImport: true, Description: description}
	}
	resp.IdentitySchema = s
}

func (r *klusterletResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The agent in a managed cluster: its namespace, service account, rights, bootstrap " +
			"kubeconfig and Deployment, installed through that cluster's own connection. " +
			"One provider serves any number of clusters; no provider alias per cluster is needed.\n\n" +
			"A cluster that has joined before, and whose agent has to be installed again, joins again by itself: the " +
			"provider allows the token that Terraform hands over to do this, or approves the certificate request. " +
			"An upgrade removes the old agent only when the new one runs and the hub has answered it; with " +
			"`host_network` the old one has to go first. " +
			"A hub that is away later does not make an agent unready.\n\n" +
			"The agent has an administrator's rights, so what others add to its Deployment is drift, too: " +
			"containers, environment, volumes, host namespaces, probes, labels and annotations of its pods. " +
			"A plan names each of it, and the next apply removes it. Not drift are what the API server fills in, " +
			"`kubectl rollout restart`, and what only decides where the pods run and how their image is pulled: " +
			"tolerations, node selectors, affinity, priority, pull secrets and further resources.\n\n" +
			"Destroying it waits until the hub's works are gone from the cluster, which needs the agent, and then " +
			"removes the agent with its namespace. " +
			"A managed cluster that can't be reached does not fail a plan: it is reported as a warning.",
		Attributes: klusterletAttributes(),
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, CreateDescription: attribute.TimeoutText("installing, with the wait for the agent's "+
					"certificate,", defaultInstall),
				Update: true, UpdateDescription: attribute.TimeoutText("updating", defaultInstall),
				Delete: true, DeleteDescription: attribute.TimeoutText("removing, with the wait "+
					"for works,", attribute.DefaultDelete),
			}),
		},
	}
}

// Read needs the managed cluster, but does without it: clusters may be away.
func (r *klusterletResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state klusterletModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
	var diags diag.Diagnostics
	agent := r.agent(&state, refreshBudget, &diags)
	if diags.HasError() {
		resp.Diagnostics.AddWarning(fmt.Sprintf("The agent in cluster %q was "+
			"not checked", state.ClusterName.ValueString()), diags.Errors()[0].Detail())
		return
	}
	was := placeIn(ctx, req.Private, &resp.Diagnostics)
	seen, found, err := agent.glance(ctx)
	if err != nil {
		resp.Diagnostics.AddWarning(fmt.Sprintf("The agent in cluster %q was "+
			"not checked", state.ClusterName.ValueString()),
			hub.Explain(agent.client.Host(), "read the agent's objects", err)+" The state stays as it was.")
		return
	}
	if was.other(found) {
		// The plan says what to do about it.
		resp.Diagnostics.AddWarning(fmt.Sprintf("The agent in cluster %q was not checked", agent.name),
			fmt.Sprintf("The connection leads to another cluster than the one that the agent was installed in: to "+
				"%s, and not to %s. The state stays as it was.", found.Host, was.Host))
		return
	}
	rebuilt := was.UID != "" && was.UID != found.UID
	if !seen.any && !rebuilt {
		resp.State.RemoveResource(ctx)
		return
	}
	r.reportStray(ctx, agent, &state, &seen, &resp.Diagnostics)
	state.observe(seen)
	if len(seen.drifts) > 0 && !state.failed() {
		resp.Diagnostics.AddWarning(fmt.Sprintf("The agent in cluster %q was changed", agent.name),
			fmt.Sprintf("In the cluster at %s these objects are not as they should be; the next apply restores "+
				"them:\n%s", found.Host, attribute.JoinLines(indented(seen.drifts))))
	}
	if !rebuilt {
		state.ClusterUID = types.StringValue(found.UID)
		found.keep(ctx, resp.Private, &resp.Diagnostics)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

// reportStray warns of an agent that belongs to another hub, and has the next apply
// take it back where the provider makes the bootstrap kubeconfig.
func (r *klusterletResource) reportStray(
	ctx context.Context, a *agent, state *klusterletModel, seen *observation, diags *diag.Diagnostics,
) {
	if r.Hub.PlanClient() == nil {
		return
	}
	j := &joining{hub: r.Hub, client: r.Hub.PlanClient(), name: a.name}
	why := j.strayed(ctx, a, state.bootstrapAttribute().Bootstrap(a.name, ""), *seen)
	if why == "" {
		return
	}
	next := "The next apply hands a bootstrap kubeconfig of this hub over to it, and it joins."
	if state.makesKubeconfig() {
		seen.drifts = append(seen.drifts, "the agent belongs to another hub")
		seen.certified = false
	} else {
		next = "If it is to join this one, give it a new bootstrap_kubeconfig_wo and raise " +
			"bootstrap_kubeconfig_wo_version."
	}
	diags.AddWarning(fmt.Sprintf("The agent in cluster %q belongs to another hub", a.name), why+"\n\n"+next)
}

func indented(lines []string) []string {
	out := make([]string, 0, len(lines))
	for _, line := range lines {
		out = append(out, "  "+line)
	}
	return out
}

func (r *klusterletResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state klusterletModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	j := r.joining(state.ClusterName.ValueString())
	detached := j.detached(ctx)
	if mc := j.cluster(ctx); mc != nil && crud.IsLost(mc) {
		warnOfLeftAgent(j.name, "its muster_managed_cluster says that it is gone for good", &resp.Diagnostics)
		return
	}
	budget := kube.DefaultRetryBudget
	if detached {
		budget = refreshBudget
	}
	agent := r.agent(&state, budget, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := agent.place(ctx)
	if err != nil && detached && kube.IsUnanswered(err) {
		warnOfLeftAgent(agent.name, fmt.Sprintf("the hub has no such cluster any more, and it does not "+
			"answer at %s", agent.client.Host()), &resp.Diagnostics)
		return
	}
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, agent.client, fmt.Sprintf("remove the agent from "+
			"cluster %q", agent.name), err)
		agent.suggestForgetting(&resp.Diagnostics)
		return
	}
	if was := placeIn(ctx, req.Private, &resp.Diagnostics); was.UID != "" && found.UID != was.UID {
		resp.Diagnostics.AddWarning(fmt.Sprintf("The agent of cluster %q was not removed", agent.name),
			fmt.Sprintf("The cluster that it was installed in, with the UID %q, is no longer at %s, so there is "+
				"nothing to remove here. If it still runs elsewhere, deny the cluster or delete its "+
				"ManagedCluster.", was.UID, found.Host))
		return
	}
	if !state.KeepWorksOnDestroy.ValueBool() && !agent.waitForWorks(ctx, j, timeout, &resp.Diagnostics) {
		return
	}
	leaving := agent.leaving(ctx, j, found, detached)
	agent.Remove(ctx, timeout, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		leaving.letWorksGo(ctx, state.KeepWorksOnDestroy.ValueBool(), &resp.Diagnostics)
	}
}

// ImportState takes CLUSTER_NAME@KUBECONFIG_PATH, with #CONTEXT behind it and
// NAMESPACE/ before it if need be, or the identity with the same parts.
func (r *klusterletResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	var id klusterletIdentity
	if req.ID == "" {
		resp.Diagnostics.Append(req.Identity.Get(ctx, &id)...)
	} else {
		id = parseKlusterletID(req.ID, &resp.Diagnostics)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if id.Namespace.IsNull() {
		id.Namespace = types.StringValue(cluster.AgentNamespace)
	}
	state := klusterletModel{
		OptionsModel:       OptionsModelOf(v1alpha1.AgentOptions{}),
		ClusterName:        id.ClusterName,
		Namespace:          id.Namespace,
		Problems:           types.ListNull(types.StringType),
		Connection:         connection.AtPath(id.KubeconfigPath, id.Context).Object(),
		WaitForBootstrap:   types.BoolValue(true),
		KeepWorksOnDestroy: types.BoolValue(false),
		Timeouts:           attribute.NullTimeouts("create", "update", "delete"),
	}
	agent := r.agent(&state, kube.DefaultRetryBudget, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	doing := fmt.Sprintf("import the agent of cluster %q", agent.name)
	seen, found, err := agent.visit(ctx)
	switch {
	case err != nil:
		hub.AddAPIError(&resp.Diagnostics, agent.client, doing, err)
		return
	case seen.deployment == nil:
		resp.Diagnostics.AddError("Cannot "+doing, fmt.Sprintf("The cluster at %s has no agent in namespace %s. Name "+
			"another namespace with NAMESPACE/CLUSTER_NAME@KUBECONFIG_PATH.",
			agent.client.Host(), state.Namespace.ValueString()))
		return
	}
	state.adopt(seen)
	state.ClusterUID = types.StringValue(found.UID)
	found.keep(ctx, resp.Private, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
}

func (m *klusterletModel) identity() klusterletIdentity {
	id := klusterletIdentity{ClusterName: m.ClusterName, Namespace: m.Namespace}
	if to := connection.Of(m.Connection); to != nil {
		id.KubeconfigPath, id.Context = to.Path(), to.ContextName()
	}
	return id
}
