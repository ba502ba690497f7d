package clusterimport

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

var (
	_ resource.ResourceWithConfigure      = (*importResource)(nil)
	_ resource.ResourceWithImportState    = (*importResource)(nil)
	_ resource.ResourceWithIdentity       = (*importResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*importResource)(nil)
	_ resource.ResourceWithMoveState      = (*importResource)(nil)
	_ resource.ResourceWithValidateConfig = (*importResource)(nil)
)

type importResource struct{ crud.Resource }

// New is muster_cluster_import.
func New() resource.Resource { return &importResource{} }

func (r *importResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cluster_import"
}

func (r *importResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("name")
}

func (r *importResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := specAttributes()
	maps.Copy(attributes, handInAttributes())
	maps.Copy(attributes, statusAttributes())
	attributes["wait"] = waitAttribute()
	attributes["ready"] = attribute.Ready("Whether what `wait` asks for was met; null without `wait`.")
	attributes["adopt"] = attribute.AdoptAttribute()
	attributes["force_conflicts"] = attribute.ForceAttribute()
	resp.Schema = schema.Schema{
		MarkdownDescription: "Has the hub install the agent in a cluster, through a kubeconfig that it forgets when the cluster has joined. " +
			"It is for clusters that Terraform can't reach and the hub can; otherwise `muster_klusterlet` installs the agent, and the hub never sees a kubeconfig. A cluster has one of the two.\n\n" +
			"Options, the hub's address, and `redeploy` roll the agent when they change: the cluster keeps its identity and does not register again.\n\n" +
			"Destroying it leaves the agent in the cluster, and the managed cluster on the hub. It revokes the bootstrap token and deletes the kubeconfig. To let the cluster go, detach its managed cluster, and remove the agent's namespace there.\n\n" +
			"Needs a muster hub with the feature gate `ClusterImport`, which is off by default: `muster hub --feature-gates ClusterImport=true`.",
		Attributes: attributes,
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, CreateDescription: attribute.TimeoutText("creating, with `wait`,", attribute.DefaultWait),
				Update: true, UpdateDescription: attribute.TimeoutText("changing, with `wait`,", attribute.DefaultWait),
				Delete: true, DeleteDescription: attribute.TimeoutText("deleting", attribute.DefaultDelete),
			}),
		},
	}
}

// kubeconfigIn is the kubeconfig of a configuration; null without one.
func kubeconfigIn(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) types.String {
	var content types.String
	diags.Append(config.GetAttribute(ctx, path.Root("kubeconfig_wo"), &content)...)
	return content
}

func (r *importResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan importModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Create(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	content := kubeconfigIn(ctx, req.Config, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	object := plan.object()
	if !r.CreateObject(waiting, plan.owned(object), resp.Private, &resp.Diagnostics) {
		return
	}
	plan.reportWritten(object)
	version, ok := "", true
	if !content.IsNull() {
		version, ok = handIn(waiting, r.Hub.WriteClient(&resp.Diagnostics), &plan, content.ValueString(), &resp.Diagnostics)
	}
	r.follow(waiting, &plan, object, version, timeout, ok).Created(ctx, &plan, resp)
}

func (r *importResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state importModel
	object := &v1alpha1.ClusterImport{}
	r.ReadObject(ctx, req, resp, &state, object, func() error {
		state.observe(object)
		return nil
	})
}

func (r *importResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state importModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := plan.Timeouts.Update(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	content := kubeconfigIn(ctx, req.Config, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	object := plan.object()
	if !r.UpdateObject(waiting, plan.owned(object), req.Private, resp.Private, &resp.Diagnostics) {
		return
	}
	plan.reportWritten(object)
	client := r.Hub.WriteClient(&resp.Diagnostics)
	moved := !state.KubeconfigSecret.Equal(plan.KubeconfigSecret) || plan.KubeconfigVersion.IsNull()
	if !state.KubeconfigVersion.IsNull() && moved {
		withdraw(waiting, client, &state, &resp.Diagnostics)
	}
	version, ok := "", true
	if !content.IsNull() && handsIn(attribute.ChangesBetween(req.Plan.Raw, req.State.Raw), state.KubeconfigNeeded) {
		version, ok = handIn(waiting, client, &plan, content.ValueString(), &resp.Diagnostics)
	}
	r.follow(waiting, &plan, object, version, timeout, ok).Updated(ctx, &plan, resp)
}

func (r *importResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state importModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.Destroy(ctx, &v1alpha1.ClusterImport{}, &state, timeout, req.Private, &resp.Diagnostics, nil)
	client := r.Hub.WriteClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() || state.KubeconfigVersion.IsNull() {
		return
	}
	// An import that is still there is another resource's by now, and needs the
	// kubeconfig.
	if name := state.Name.ValueString(); kube.IsNotFound(client.Get(ctx, &v1alpha1.ClusterImport{}, "", name), name) {
		withdraw(ctx, client, &state, &resp.Diagnostics)
	}
}

func (r *importResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &v1alpha1.ClusterImport{}
	named := func(names []string) crud.Model {
		return &importModel{specModel: specModel{Name: types.StringValue(names[0])}}
	}
	r.ImportObject(ctx, req, resp, []string{"name"}, object, named, func() (crud.Model, error) { return importImport(object), nil })
}

// MoveState implements resource.ResourceWithMoveState.
func (r *importResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *v1alpha1.ClusterImport) (crud.Model, error) { return importImport(object), nil })
}
