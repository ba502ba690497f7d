package logicalcloud

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

var (
	_ resource.ResourceWithConfigure      = (*waitResource)(nil)
	_ resource.ResourceWithIdentity       = (*waitResource)(nil)
	_ resource.ResourceWithValidateConfig = (*waitResource)(nil)
)

type waitResource struct{ crud.Resource }

type waitResourceModel struct {
	Namespace types.String `tfsdk:"namespace"`
	Name      types.String `tfsdk:"name"`
	waitModel
	Triggers types.Map      `tfsdk:"triggers"`
	Timeouts timeouts.Value `tfsdk:"timeouts"`
}

// NewWait is muster_logical_cloud_wait.
func NewWait() resource.Resource { return &waitResource{} }

func (r *waitResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_logical_cloud_wait"
}

func (r *waitResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("namespace", "name")
}

func (r *waitResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := waitAttributes()
	maps.Copy(attributes, map[string]schema.Attribute{
		"namespace": attribute.Identifying("Namespace of the logical cloud.", attribute.ValidName("namespace")),
		"name":      attribute.Identifying("Name of the logical cloud.", attribute.ValidObjectName("logical cloud name")),
		"triggers": schema.MapAttribute{
			MarkdownDescription: "Values whose change makes it wait again, such as `{ grants = jsonencode(muster_logical_cloud.prod.grants) }`.",
			Optional:            true, ElementType: types.StringType,
		},
	})
	resp.Schema = schema.Schema{
		MarkdownDescription: "Waits until the clusters of a logical cloud are ready, and fails the run when they are not. It creates nothing and destroys nothing. Let everything depend on it that needs the cloud's namespace in the clusters.\n\n" +
			"The wait is a resource of its own on purpose: when it fails, the run fails, but nobody's access is touched, and the next apply waits again. `wait` of `muster_logical_cloud` can't do that after a creation.",
		Attributes: attributes,
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, CreateDescription: attribute.TimeoutText("the first wait", attribute.DefaultWait),
				Update: true, UpdateDescription: attribute.TimeoutText("a wait for a change", attribute.DefaultWait),
			}),
		},
	}
}

// ValidateConfig refuses a wait for nothing.
func (r *waitResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var whole types.Object
	resp.Diagnostics.Append(req.Config.Get(ctx, &whole)...)
	if !resp.Diagnostics.HasError() {
		checkWait(path.Root("ready"), whole.Attributes(), &resp.Diagnostics)
	}
}

func (r *waitResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan waitResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Create(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	r.Await(ctx, &plan, timeout, &resp.State, resp.Identity, &resp.Diagnostics, func(waiting context.Context, client *kube.Client) (summary, problem string) {
		return plan.until(waiting, client, plan.object(), timeout)
	})
}

func (r *waitResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	r.Refresh(ctx, req, resp, &waitResourceModel{}, &v1alpha1.LogicalCloud{}, func() error { return nil })
}

// Update waits again, unless only a timeout has changed.
func (r *waitResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan waitResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if !attribute.ChangesBetween(req.Plan.Raw, req.State.Raw).Beyond("timeouts") {
		crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
		return
	}
	timeout, diags := plan.Timeouts.Update(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	r.Await(ctx, &plan, timeout, &resp.State, resp.Identity, &resp.Diagnostics, func(waiting context.Context, client *kube.Client) (summary, problem string) {
		return plan.until(waiting, client, plan.object(), timeout)
	})
}

// Delete forgets what was waited for.
func (r *waitResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

func (m *waitResourceModel) object() *v1alpha1.LogicalCloud {
	object := &v1alpha1.LogicalCloud{}
	object.Namespace, object.Name = m.Key()
	return object
}

// Key implements crud.Model.
func (m *waitResourceModel) Key() (namespace, name string) {
	return m.Namespace.ValueString(), m.Name.ValueString()
}

// Identity implements crud.Model.
func (m *waitResourceModel) Identity() any {
	return attribute.NamespacedIdentity{Namespace: m.Namespace, Name: m.Name}
}

// What implements crud.Model.
func (m *waitResourceModel) What() string {
	return fmt.Sprintf("the wait for logical cloud %q", m.Namespace.ValueString()+"/"+m.Name.ValueString())
}
