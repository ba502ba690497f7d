// Package builtin is the provider that Terraform has inside.
package builtin

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/dynamicplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// builtin has the resource terraform_data, which Terraform has inside.
type builtin struct{}

// NewServer serves the resource terraform_data.
func NewServer() (tfprotov6.ProviderServer, error) {
	return providerserver.NewProtocol6WithError(builtin{})()
}

func (builtin) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "terraform"
}

func (builtin) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {}

func (builtin) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {}

func (builtin) DataSources(context.Context) []func() datasource.DataSource { return nil }

func (builtin) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return data{} }}
}

// data is terraform_data.
type data struct{}

type dataModel struct {
	ID              types.String  `tfsdk:"id"`
	Input           types.Dynamic `tfsdk:"input"`
	Output          types.Dynamic `tfsdk:"output"`
	TriggersReplace types.Dynamic `tfsdk:"triggers_replace"`
}

func (data) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "terraform_data"
}

func (data) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"id": schema.StringAttribute{
			Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
		},
		"input":  schema.DynamicAttribute{Optional: true},
		"output": schema.DynamicAttribute{Computed: true},
		"triggers_replace": schema.DynamicAttribute{
			Optional: true, PlanModifiers: []planmodifier.Dynamic{dynamicplanmodifier.RequiresReplace()},
		},
	}}
}

func (data) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model dataModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	model.ID, model.Output = types.StringValue("made"), model.Input
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (data) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

func (data) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model dataModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	model.Output = model.Input
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (data) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}
