package crud

import (
	"context"
	"maps"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

var (
	_ resource.ResourceWithConfigure      = (*WaitResource)(nil)
	_ resource.ResourceWithIdentity       = (*WaitResource)(nil)
	_ resource.ResourceWithValidateConfig = (*WaitResource)(nil)
)

// WaitModel is the model of a resource that only waits. Its Key is that of the object
// that it waits for.
type WaitModel interface {
	Model
	// Limits are its timeouts.
	Limits() timeouts.Value
	// Wait waits, and returns what to report if the wait was not met. It ends with
	// waiting, which lasts for timeout.
	Wait(waiting context.Context, client *kube.Client, timeout time.Duration) (summary, problem string)
}

// WaitResource is a resource that only waits for an object: a failure is an error,
// which taints nothing but the wait, and is waited for again by the next apply. The
// resource goes with the object.
type WaitResource struct {
	Resource
	// Type is its name without the provider's, such as logical_cloud_wait.
	Type string
	// Keys are the attributes that name the object.
	Keys []string
	// Description is its documentation.
	Description string
	// Attributes are its own, beside what there is to wait for: the keys, and what makes
	// it wait again.
	Attributes func() map[string]schema.Attribute
	// Options are what there is to wait for. Where there are several, the first one is
	// waited for if none is set.
	Options func() WaitOptions
	// Model is an empty model, and Object an empty object of the kind.
	Model  func() WaitModel
	Object func() kube.Object
}

// Metadata implements resource.Resource.
func (r *WaitResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + r.Type
}

// IdentitySchema implements resource.ResourceWithIdentity.
func (r *WaitResource) IdentitySchema(
	_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse,
) {
	resp.IdentitySchema = attribute.IdentitySchema(r.Keys...)
}

// Schema implements resource.Resource.
func (r *WaitResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	options := r.Options()
	attributes := options.Attributes()
	if first, ok := attributes[options[0].Name].(schema.BoolAttribute); ok {
		first.MarkdownDescription += " Defaults to `true` where nothing else is set to wait for."
		attributes[options[0].Name] = first
	}
	maps.Copy(attributes, r.Attributes())
	resp.Schema = schema.Schema{
		MarkdownDescription: r.Description,
		Attributes:          attributes,
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, CreateDescription: attribute.TimeoutText("the first wait", attribute.DefaultWait),
				Update: true, UpdateDescription: attribute.TimeoutText("a wait for a change", attribute.DefaultWait),
			}),
		},
	}
}

// ValidateConfig refuses a wait for nothing.
func (r *WaitResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	if r.Options == nil {
		return
	}
	var whole types.Object
	resp.Diagnostics.Append(req.Config.Get(ctx, &whole)...)
	options := r.Options()
	first := options[0].Name
	if value, ok := whole.Attributes()[first]; ok && !value.IsNull() {
		options.check(path.Root(first), whole.Attributes(), &resp.Diagnostics)
	}
}

// Create waits for the first time.
func (r *WaitResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	plan := r.Model()
	resp.Diagnostics.Append(req.Plan.Get(ctx, plan)...)
	timeout, diags := plan.Limits().Create(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	if r.await(ctx, req.Config, timeout, &resp.Diagnostics) {
		Save(ctx, plan, &resp.State, resp.Identity, &resp.Diagnostics)
	}
}

// Read forgets the wait when its object is gone.
func (r *WaitResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	r.Refresh(ctx, req, resp, r.Model(), r.Object(), func() error { return nil })
}

// Update waits again, unless only a timeout has changed.
func (r *WaitResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	plan := r.Model()
	resp.Diagnostics.Append(req.Plan.Get(ctx, plan)...)
	if attribute.ChangesBetween(req.Plan.Raw, req.State.Raw).Beyond("timeouts") {
		timeout, diags := plan.Limits().Update(ctx, attribute.DefaultWait)
		resp.Diagnostics.Append(diags...)
		if !r.await(ctx, req.Config, timeout, &resp.Diagnostics) {
			return
		}
	}
	Save(ctx, plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

// Delete forgets what was waited for.
func (r *WaitResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

// await waits for what the configuration says, which has also what is write-only, and
// reports whether the wait was met.
func (r *WaitResource) await(
	ctx context.Context, config tfsdk.Config, timeout time.Duration, diags *diag.Diagnostics,
) bool {
	model := r.Model()
	diags.Append(config.Get(ctx, model)...)
	client := r.Hub.Client(diags)
	if diags.HasError() {
		return false
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	summary, problem := model.Wait(waiting, client, timeout)
	if problem != "" {
		diags.AddError(summary, problem)
	}
	return problem == ""
}

// NamespacedWait is the part of a model that names what is waited for in a namespace,
// and says for how long.
type NamespacedWait struct {
	Namespace types.String   `tfsdk:"namespace"`
	Name      types.String   `tfsdk:"name"`
	Timeouts  timeouts.Value `tfsdk:"timeouts"`
}

// Key implements Model.
func (m *NamespacedWait) Key() (namespace, name string) {
	return m.Namespace.ValueString(), m.Name.ValueString()
}

// Identity implements Model.
func (m *NamespacedWait) Identity() any {
	return attribute.NamespacedIdentity{Namespace: m.Namespace, Name: m.Name}
}

// Limits implements WaitModel.
func (m *NamespacedWait) Limits() timeouts.Value { return m.Timeouts }
