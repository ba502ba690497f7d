// Package klusterlet has the resource muster_klusterlet: it installs, updates and
// removes the agent in a managed cluster, through that cluster's own connection. It
// also has the attributes that say how an agent runs, which muster_cluster_import,
// muster_addon_deployment_config and the function klusterlet_manifests share.
package klusterlet

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
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

func newWith(p patience) resource.Resource { return &klusterletResource{patience: p} }

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
			"kubeconfig and Deployment, installed through that cluster's own connection. One provider serves any " +
			"number of clusters; no provider alias per cluster is needed.\n\n" +
			"A cluster that has joined before, and whose agent has to be installed again, joins again by itself: the " +
			"provider allows the token that Terraform hands over to do this, or approves the certificate request. An " +
			"upgrade removes the old agent only when the new one runs and the hub has answered it; with " +
			"`host_network` the old one has to go first. A hub that is away later does not make an agent unready.\n\n" +
			"The agent has an administrator's rights, so what others add to its Deployment is drift, too: " +
			"containers, environment, volumes, host namespaces, probes, labels and annotations of its pods. A plan " +
			"names each of it, and the next apply removes it. Not drift are what the API server fills in, `kubectl " +
			"rollout restart`, and what only decides where the pods run and how their image is pulled: tolerations, " +
			"node selectors, affinity, priority, pull secrets and further resources.\n\n" +
			"Destroying it waits until the hub's works are gone from the cluster, which needs the agent, and then " +
			"removes the agent with its namespace. A managed cluster that can't be reached does not fail a plan: it " +
			"is reported as a warning.",
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

// ValidateConfig refuses options that no agent can have, and lives that Kubernetes
// gives no service account's token.
func (r *klusterletResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	config := modelOf(ctx, req.Config, &resp.Diagnostics)
	bootstrap, ttl := config.Object("bootstrap"), path.Root("bootstrap").AtName("ttl")
	registration.CheckTTL(ttl, bootstrap.Text("credential"), bootstrap.Text("ttl"), &resp.Diagnostics)
	CheckAgentOptions(config.Values, path.Empty(), &resp.Diagnostics)
}

// A refresh can do without the cluster.
const (
	// refreshBudget is how long a cluster may refuse connections meanwhile.
	refreshBudget = time.Second
	// refreshTimeout is how long it may take to answer, with the program that prints
	// credentials, if there is one.
	refreshTimeout = 8 * time.Second
)

// Read needs the managed cluster, but does without it: clusters may be away.
func (r *klusterletResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	state := modelOf(ctx, req.State, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
	notChecked := func(why string) {
		name := state.Text("cluster_name")
		resp.Diagnostics.AddWarning(fmt.Sprintf("The agent in cluster %q was not checked", name), why)
	}
	var diags diag.Diagnostics
	agent := r.agent(state, refreshBudget, &diags)
	if diags.HasError() {
		notChecked(diags.Errors()[0].Detail())
		return
	}
	was := placeIn(ctx, req.Private, &resp.Diagnostics)
	visiting, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	seen, found, err := agent.visit(visiting)
	if err != nil {
		notChecked(hub.Explain(agent.client.Host(), "read the agent's objects", err) + " The state stays as it was.")
		return
	}
	if was.other(found) { // The plan says what to do about it.
		notChecked(fmt.Sprintf("The connection leads to another cluster than the one that the agent was installed in: "+
			"to %s, and not to %s. The state stays as it was.", found.Host, was.Host))
		return
	}
	rebuilt := was.UID != "" && was.UID != found.UID
	if !seen.any && !rebuilt {
		resp.State.RemoveResource(ctx)
		return
	}
	r.reportStray(ctx, agent, &seen, &resp.Diagnostics)
	state.observe(seen)
	if len(seen.drifts) > 0 && !state.failed() {
		resp.Diagnostics.AddWarning(fmt.Sprintf("The agent in cluster %q was changed", agent.name),
			fmt.Sprintf("In the cluster at %s these objects are not as they should be; the next apply restores "+
				"them:\n%s", found.Host, indented(seen.drifts)))
	}
	if !rebuilt {
		state.Values["cluster_uid"] = types.StringValue(found.UID)
		found.keep(ctx, resp.Private, &resp.Diagnostics)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, state.object())...)
}

// reportStray warns of an agent that belongs to another hub, and has the next apply
// take it back where the provider makes the bootstrap kubeconfig.
func (r *klusterletResource) reportStray(ctx context.Context, a *agent, seen *observation, diags *diag.Diagnostics) {
	client := r.Hub.PlanClient()
	if client == nil {
		return
	}
	why := (&joining{hub: r.Hub, client: client, name: a.name}).strayed(ctx, a, *seen)
	if why == "" {
		return
	}
	next := "The next apply hands a bootstrap kubeconfig of this hub over to it, and it joins."
	if a.makesKubeconfig() {
		seen.drifts = append(seen.drifts, "the agent belongs to another hub")
		seen.certified = false
	} else {
		next = "If it is to join this one, give it a new bootstrap_kubeconfig_wo and raise " +
			"bootstrap_kubeconfig_wo_version."
	}
	diags.AddWarning(fmt.Sprintf("The agent in cluster %q belongs to another hub", a.name), why+"\n\n"+next)
}

func indented(lines []string) string { return "  " + strings.Join(lines, "\n  ") }

// Delete waits for the hub's works to go, and removes the agent. One that never came into
// its cluster is forgotten if that can't be reached now either.
func (r *klusterletResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	state, diags := modelOf(ctx, req.State, &resp.Diagnostics), &resp.Diagnostics
	was := placeIn(ctx, req.Private, diags)
	r.remove(ctx, state, was, diags)
	if was.UID == "" && diags.HasError() {
		_, reasons := warned(*diags)
		*diags = nil
		diags.AddWarning(fmt.Sprintf("Nothing was removed from cluster %q", state.Text("cluster_name")),
			fmt.Sprintf("The agent's installation there never succeeded, and it can't be looked for now: %s",
				attribute.JoinLines(reasons)))
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
	kinds, _ := resp.State.Schema.Type().(attr.TypeWithAttributeTypes)
	state := model{attribute.Values{}, kinds.AttributeTypes()}
	for name, kind := range state.kinds {
		state.Values[name] = attribute.Null(kind)
	}
	maps.Copy(state.Values, attribute.Values{
		"cluster_name": id.ClusterName, "namespace": id.Namespace,
		"cluster_connection": connection.AtPath(id.KubeconfigPath, id.Context).Object(),
		"wait_for_bootstrap": types.BoolValue(true), "keep_works_on_destroy": types.BoolValue(false),
	})
	agent := r.agent(state, kube.DefaultRetryBudget, &resp.Diagnostics)
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
			agent.client.Host(), id.Namespace.ValueString()))
		return
	}
	state.adopt(seen)
	state.Values["cluster_uid"] = types.StringValue(found.UID)
	found.keep(ctx, resp.Private, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, state.object())...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
}

// parseKlusterletID takes [NAMESPACE/]CLUSTER_NAME@KUBECONFIG_PATH[#CONTEXT]
// apart.
func parseKlusterletID(text string, diags *diag.Diagnostics) klusterletIdentity {
	name, location, found := strings.Cut(text, "@")
	namespace, rest, namespaced := strings.Cut(name, "/")
	if namespaced {
		name = rest
	} else {
		namespace = ""
	}
	kubeconfig, context, _ := strings.Cut(location, "#")
	if !found || name == "" || kubeconfig == "" || (namespaced && namespace == "") {
		diags.AddError("Invalid import ID",
			fmt.Sprintf("%q does not say which agent and where: the ID has the form CLUSTER_NAME@KUBECONFIG_PATH, "+
				"such as c1@~/.kube/c1.yaml, with #CONTEXT behind it and NAMESPACE/ before it if need be.", text))
		return klusterletIdentity{}
	}
	return klusterletIdentity{
		ClusterName: types.StringValue(name), Namespace: attribute.OptionalString(namespace),
		KubeconfigPath: types.StringValue(kubeconfig), Context: attribute.OptionalString(context),
	}
}
