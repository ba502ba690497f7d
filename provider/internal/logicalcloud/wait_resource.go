package logicalcloud

import (
	"context"
	"fmt"
	"maps"
	"time"

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

type waitResource struct{ crud.WaitResource }

type waitResourceModel struct {
	Namespace types.String `tfsdk:"namespace"`
	Name      types.String `tfsdk:"name"`
	waitModel
	Triggers types.Map      `tfsdk:"triggers"`
	Timeouts timeouts.Value `tfsdk:"timeouts"`
}

// NewWait is muster_logical_cloud_wait.
func NewWait() resource.Resource {
	return &waitResource{crud.WaitResource{
		Model:  func() crud.Waiting { return &waitResourceModel{} },
		Object: func() kube.Object { return &v1alpha1.LogicalCloud{} },
	}}
}

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
		Blocks:     crud.WaitTimeouts(ctx),
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

// Limits implements crud.Waiting.
func (m *waitResourceModel) Limits() timeouts.Value { return m.Timeouts }

// Wait implements crud.Waiting.
func (m *waitResourceModel) Wait(waiting context.Context, client *kube.Client, timeout time.Duration) (summary, problem string) {
	object := &v1alpha1.LogicalCloud{}
	object.Namespace, object.Name = m.Key()
	return m.until(waiting, client, object, timeout)
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
