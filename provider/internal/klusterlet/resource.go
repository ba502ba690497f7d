package klusterlet

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/connection"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

var (
	_ resource.ResourceWithConfigure   = (*klusterletResource)(nil)
	_ resource.ResourceWithImportState = (*klusterletResource)(nil)
	_ resource.ResourceWithIdentity    = (*klusterletResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*klusterletResource)(nil)
)

const defaultInstall = 5 * time.Minute

type klusterletResource struct{ crud.Resource }

type klusterletModel struct {
	ClusterName               types.String      `tfsdk:"cluster_name"`
	Namespace                 types.String      `tfsdk:"namespace"`
	Image                     types.String      `tfsdk:"image"`
	Args                      types.List        `tfsdk:"args"`
	Connection                *connection.Model `tfsdk:"cluster_connection"`
	BootstrapKubeconfig       types.String      `tfsdk:"bootstrap_kubeconfig_wo"`
	BootstrapKubeconfigNumber types.Int64       `tfsdk:"bootstrap_kubeconfig_wo_version"`
	WaitForBootstrap          types.Bool        `tfsdk:"wait_for_bootstrap"`
	KeepWorksOnDestroy        types.Bool        `tfsdk:"keep_works_on_destroy"`
	Installed                 types.Bool        `tfsdk:"installed"`
	Ready                     types.Bool        `tfsdk:"ready"`
	ClusterUID                types.String      `tfsdk:"cluster_uid"`
	OnFailure                 types.String      `tfsdk:"on_failure"`
	Problem                   types.String      `tfsdk:"problem"`
	Timeouts                  timeouts.Value    `tfsdk:"timeouts"`
}

type klusterletIdentity struct {
	ClusterName    types.String `tfsdk:"cluster_name"`
	Namespace      types.String `tfsdk:"namespace"`
	KubeconfigPath types.String `tfsdk:"kubeconfig_path"`
	Context        types.String `tfsdk:"context"`
}

// New is muster_klusterlet.
func New() resource.Resource { return &tolerantKlusterlet{} }

func (r *klusterletResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_klusterlet"
	resp.ResourceBehavior.MutableIdentity = true // a kubeconfig may move
}

func (r *klusterletResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	s := attribute.IdentitySchema("cluster_name", "kubeconfig_path")
	s.Attributes["kubeconfig_path"] = identityschema.StringAttribute{OptionalForImport: true, Description: "Kubeconfig file of the managed cluster."}
	s.Attributes["context"] = identityschema.StringAttribute{OptionalForImport: true, Description: "Context of that kubeconfig; its current one if omitted."}
	s.Attributes["namespace"] = identityschema.StringAttribute{OptionalForImport: true, Description: "Namespace of the agent; " + cluster.AgentNamespace + " if left out."}
	resp.IdentitySchema = s
}

func (r *klusterletResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The agent in a managed cluster: its namespace, service account, rights, bootstrap kubeconfig and Deployment, installed through that cluster's own connection. " +
			"One provider serves any number of clusters; no provider alias per cluster is needed.\n\n" +
			"A cluster that has joined before, and whose agent has to be installed again, joins again by itself: the provider allows the token that Terraform hands over to do this, or approves the certificate request. " +
			"An upgrade removes the old agent only when the new one runs.\n\n" +
			"Destroying it waits until the hub's works are gone from the cluster, which needs the agent, and then removes the agent with its namespace. " +
			"A managed cluster that can't be reached does not fail a plan: it is reported as a warning.",
		Attributes: klusterletAttributes(),
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, CreateDescription: attribute.TimeoutText("installing, with the wait for the agent's certificate,", defaultInstall),
				Update: true, UpdateDescription: attribute.TimeoutText("updating", defaultInstall),
				Delete: true, DeleteDescription: attribute.TimeoutText("removing, with the wait for works,", attribute.DefaultDelete),
			}),
		},
	}
}

// klusterletAttributes are the arguments and results of the resource.
func klusterletAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"cluster_name": attribute.Identifying("Name of the cluster on the hub. Changing it replaces the agent.",
			attribute.ValidClusterName()),
		"namespace": schema.StringAttribute{
			MarkdownDescription: "Namespace for the agent. It is made, and removed with the agent. Defaults to `" + cluster.AgentNamespace + "`.",
			Optional:            true, Computed: true, Default: stringdefault.StaticString(cluster.AgentNamespace),
			PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators:    []validator.String{attribute.ValidName("namespace"), stringvalidator.NoneOf("default", "kube-system", "kube-public", "kube-node-lease")},
		},
		"image": schema.StringAttribute{
			MarkdownDescription: "Container image of the agent. If omitted, the image of the provider's own version, so that upgrading the provider upgrades the agents.",
			Optional:            true,
			Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"args": schema.ListAttribute{
			MarkdownDescription: "Further arguments of `muster agent`, such as `-v=2`.",
			Optional:            true,
			ElementType:         types.StringType,
		},
		"cluster_connection": connection.ResourceAttribute("How to reach the managed cluster's API server. It is kept in the state because reading and destroying need it, so it has no write-only attributes: " +
			"to keep credentials out of the state, use `kubeconfig_path` or `exec`. Its attributes are those of the provider block."),
		"cluster_uid": schema.StringAttribute{
			MarkdownDescription: "UID of the namespace `kube-system` of the managed cluster, which identifies it. If omitted, it is recorded when the agent is installed: " +
				"a cluster that was rebuilt at its old address gets its agent again, and a connection that leads to another cluster at another address is refused. " +
				"Set it to require a particular cluster, such as the one that takes over the name.",
			Optional: true, Computed: true,
			Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"bootstrap_kubeconfig_wo": schema.StringAttribute{
			MarkdownDescription: "Kubeconfig with which the agent registers at the hub, best from the ephemeral resource `muster_bootstrap_kubeconfig`. Write-only: it is never kept in the state. " +
				"If omitted, the Secret `" + cluster.BootstrapSecret + "` in the agent's namespace has to come from elsewhere.",
			Optional: true, Sensitive: true, WriteOnly: true,
			Validators: []validator.String{kubeconfigValidator{}, stringvalidator.AlsoRequires(path.MatchRoot("bootstrap_kubeconfig_wo_version"))},
		},
		"bootstrap_kubeconfig_wo_version": schema.Int64Attribute{
			MarkdownDescription: "Number of the bootstrap kubeconfig. Raise it to hand a new one to the agent, for example after the hub has moved.",
			Optional:            true,
			Validators:          []validator.Int64{int64validator.AtLeast(0), int64validator.AlsoRequires(path.MatchRoot("bootstrap_kubeconfig_wo"))},
		},
		"wait_for_bootstrap": schema.BoolAttribute{
			MarkdownDescription: "Whether to wait, after installing and updating, until the agent is rolled out and holds a certificate from the hub. " +
				"A wait that fails makes an update fail; after a creation it only warns and leaves `ready` false, and the next apply continues. A stuck pod, for example with an image that can't be pulled, ends the wait after half a minute. " +
				"Needed with a bootstrap kubeconfig that is revoked when Terraform ends. The cluster has to be accepted, by a resource that does not depend on this one. Defaults to `true`.",
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
		},
		"keep_works_on_destroy": schema.BoolAttribute{
			MarkdownDescription: "Whether to remove the agent without waiting until the hub's works are gone; what they applied stays. For a lost hub. Defaults to `false`.",
			Optional:            true, Computed: true, Default: booldefault.StaticBool(false),
		},
		"installed": schema.BoolAttribute{
			MarkdownDescription: "Whether the agent's objects all exist unchanged. When one is missing or was changed, the plan shows this as `false -> true`.",
			Computed:            true, Default: booldefault.StaticBool(true),
		},
		"ready": schema.BoolAttribute{
			MarkdownDescription: "Whether the agent is rolled out as configured and holds a certificate. When it is `false`, the next apply hands over a bootstrap kubeconfig and waits again. Null with `wait_for_bootstrap = false`.",
			Computed:            true,
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
	agent := r.agent(&state, hub.ReadBudget, &diags)
	if diags.HasError() {
		resp.Diagnostics.AddWarning(fmt.Sprintf("The agent in cluster %q was not checked", state.ClusterName.ValueString()), diags.Errors()[0].Detail())
		return
	}
	was := placeIn(ctx, req.Private, &resp.Diagnostics)
	seen, found, err := agent.visit(ctx)
	if err != nil {
		resp.Diagnostics.AddWarning(fmt.Sprintf("The agent in cluster %q was not checked", state.ClusterName.ValueString()),
			hub.Explain(agent.client.Host(), "read the agent's objects", err)+" The state stays as it was.")
		return
	}
	if was.other(found) {
		// The plan says what to do about it.
		resp.Diagnostics.AddWarning(fmt.Sprintf("The agent in cluster %q was not checked", agent.name),
			fmt.Sprintf("The connection leads to another cluster than the one that the agent was installed in: to %s, and not to %s. The state stays as it was.", found.Host, was.Host))
		return
	}
	rebuilt := was.UID != "" && was.UID != found.UID
	if !seen.any && !rebuilt {
		resp.State.RemoveResource(ctx)
		return
	}
	state.observe(seen)
	if !rebuilt {
		state.ClusterUID = types.StringValue(found.UID)
		found.keep(ctx, resp.Private, &resp.Diagnostics)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

func (r *klusterletResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state klusterletModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	agent := r.agent(&state, kube.DefaultRetryBudget, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := agent.place(ctx)
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, agent.client, fmt.Sprintf("remove the agent from cluster %q", agent.name), err)
		agent.suggestForgetting(&resp.Diagnostics)
		return
	}
	if was := placeIn(ctx, req.Private, &resp.Diagnostics); was.UID != "" && found.UID != was.UID {
		resp.Diagnostics.AddWarning(fmt.Sprintf("The agent of cluster %q was not removed", agent.name),
			fmt.Sprintf("The cluster that it was installed in, with the UID %q, is no longer at %s, so there is nothing to remove here. If it still runs elsewhere, deny the cluster or delete its ManagedCluster.", was.UID, found.Host))
		return
	}
	if !state.KeepWorksOnDestroy.ValueBool() && !agent.waitForWorks(ctx, r.joining(agent.name), timeout, &resp.Diagnostics) {
		return
	}
	agent.Remove(ctx, timeout, &resp.Diagnostics)
}

// ImportState takes CLUSTER_NAME@KUBECONFIG_PATH, with #CONTEXT behind it and
// NAMESPACE/ before it if need be, or the identity with the same parts.
func (r *klusterletResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
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
		ClusterName:        id.ClusterName,
		Namespace:          id.Namespace,
		Args:               types.ListNull(types.StringType),
		Connection:         connection.AtPath(id.KubeconfigPath, id.Context),
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
		resp.Diagnostics.AddError("Cannot "+doing, fmt.Sprintf("The cluster at %s has no agent in namespace %s. Name another namespace with NAMESPACE/CLUSTER_NAME@KUBECONFIG_PATH.",
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
	if m.Connection != nil {
		id.KubeconfigPath, id.Context = m.Connection.Path(), m.Connection.ContextName()
	}
	return id
}
