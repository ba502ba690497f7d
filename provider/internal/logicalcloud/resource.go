package logicalcloud

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

var (
	_ resource.ResourceWithConfigure      = (*cloudResource)(nil)
	_ resource.ResourceWithImportState    = (*cloudResource)(nil)
	_ resource.ResourceWithIdentity       = (*cloudResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*cloudResource)(nil)
	_ resource.ResourceWithMoveState      = (*cloudResource)(nil)
	_ resource.ResourceWithValidateConfig = (*cloudResource)(nil)
)

type cloudResource struct{ crud.Resource }

// New is muster_logical_cloud.
func New() resource.Resource { return &cloudResource{} }

func (r *cloudResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_logical_cloud"
}

func (r *cloudResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("namespace", "name")
}

func (r *cloudResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := cloudAttributes()
	for name, attribute := range statusAttributes() {
		attributes[name] = attribute
	}
	attributes["id"] = schema.StringAttribute{
		MarkdownDescription: "The cloud as `namespace/name`, which `logical_cloud` of access requests takes. It is known once the cloud exists.",
		Computed:            true,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
	attributes["wait"] = waitAttribute()
	attributes["ready"] = attribute.Ready("Whether what `wait` asks for was met; null without `wait`.")
	attributes["adopt"] = attribute.AdoptAttribute()
	attributes["force_conflicts"] = attribute.ForceAttribute()
	resp.Schema = schema.Schema{
		MarkdownDescription: "Gives users of the hub one namespace of the same name in all clusters that placements select, with quotas and rights: the logical cloud of EMCO's DCM. " +
			"Users come in with short-lived certificates or tokens, which they get by `muster access kubeconfig`, `muster_cluster_kubeconfig` or `muster_access_request`.\n\n" +
			"Who creates a cloud needs the right to grant what it grants: the verb `bind` on its access roles. Users need the verb `use` on the cloud to ask for access.\n\n" +
			"A cluster that the placements no longer select loses the rights and quotas at once, and keeps the namespace unless `on_delete` says otherwise. " +
			"The agent of each cluster has to do user access (`--user-access`) for users to get in; rights and quotas arrive without that, too. " +
			"Needs a muster hub with the feature gate `UserAccess`, which is on by default.",
		Attributes: attributes,
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, CreateDescription: attribute.TimeoutText("creating, with `wait`,", attribute.DefaultWait),
				Update: true, UpdateDescription: attribute.TimeoutText("changing, with `wait`,", attribute.DefaultWait),
				Delete: true, DeleteDescription: attribute.TimeoutText("deleting, which waits until the rights are withdrawn in all clusters,", attribute.DefaultDelete),
			}),
		},
	}
}

func (r *cloudResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan cloudModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Create(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	object := plan.object()
	if !r.CreateObject(waiting, plan.owned(object), resp.Private, &resp.Diagnostics) {
		return
	}
	plan.ID = types.StringValue(object.Namespace + "/" + object.Name)
	plan.reportPlanned(object)
	r.follow(waiting, &plan, object, timeout).Created(ctx, &plan, resp)
}

func (r *cloudResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state cloudModel
	object := &v1alpha1.LogicalCloud{}
	r.ReadObject(ctx, req, resp, &state, object, func() error {
		state.observe(object)
		return nil
	})
}

func (r *cloudResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan cloudModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Update(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	object := plan.object()
	if !r.UpdateObject(waiting, plan.owned(object), req.Private, resp.Private, &resp.Diagnostics) {
		return
	}
	plan.reportPlanned(object)
	r.follow(waiting, &plan, object, timeout).Updated(ctx, &plan, resp)
}

func (r *cloudResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state cloudModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	object := &v1alpha1.LogicalCloud{}
	r.Destroy(ctx, object, &state, timeout, req.Private, &resp.Diagnostics, func(*kube.Client) (summary, detail string) {
		return "Not removed yet: " + state.What(), describeDeletion(object, timeout, time.Now())
	})
}

func (r *cloudResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &v1alpha1.LogicalCloud{}
	named := func(names []string) crud.Model {
		return &cloudModel{specModel: specModel{Namespace: types.StringValue(names[0]), Name: types.StringValue(names[1])}}
	}
	r.ImportObject(ctx, req, resp, []string{"namespace", "name"}, object, named, func() (crud.Model, error) { return importCloud(object), nil })
}

// MoveState implements resource.ResourceWithMoveState.
func (r *cloudResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *v1alpha1.LogicalCloud) (crud.Model, error) { return importCloud(object), nil })
}
