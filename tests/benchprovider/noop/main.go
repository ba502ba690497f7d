// Command noop is a provider that does nothing: what Terraform and the plugin
// framework cost with it is the least that they can cost with any provider. Its
// resources have the attributes of the muster resources that the benchmark
// measures.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func main() {
	err := providerserver.Serve(context.Background(), func() provider.Provider { return noopProvider{} }, providerserver.ServeOpts{
		Address:         "registry.terraform.io/muster-fleet/noop",
		ProtocolVersion: 6,
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "serving the provider: %v\n", err)
		os.Exit(1)
	}
}

type noopProvider struct{}

func (noopProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "noop"
}

func (noopProvider) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {}

func (noopProvider) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {
}

func (noopProvider) DataSources(context.Context) []func() datasource.DataSource { return nil }

func (noopProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource {
			return noopResource{name: "managed_cluster_set", schema: setSchema(), identity: identitySchema("name")}
		},
		func() resource.Resource {
			return noopResource{name: "manifest_work", schema: workSchema(), identity: identitySchema("managed_cluster", "name")}
		},
	}
}

var (
	_ resource.Resource             = noopResource{}
	_ resource.ResourceWithIdentity = noopResource{}
)

// noopResource makes the plan the state and keeps the state as it is.
type noopResource struct {
	name     string
	schema   schema.Schema
	identity identityschema.Schema
}

func (r noopResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + r.name
}

func (r noopResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.schema
}

func (r noopResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = r.identity
}

func (r noopResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	resp.State.Raw = req.Plan.Raw
	r.identify(ctx, resp.State, resp.Identity, &resp.Diagnostics)
}

func (r noopResource) Read(ctx context.Context, _ resource.ReadRequest, resp *resource.ReadResponse) {
	r.identify(ctx, resp.State, resp.Identity, &resp.Diagnostics)
}

func (r noopResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
	r.identify(ctx, resp.State, resp.Identity, &resp.Diagnostics)
}

func (r noopResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

// identify copies the identifying attributes.
func (r noopResource) identify(ctx context.Context, state tfsdk.State, identity *tfsdk.ResourceIdentity, diags *diag.Diagnostics) {
	for name := range r.identity.Attributes {
		var value types.String
		diags.Append(state.GetAttribute(ctx, path.Root(name), &value)...)
		diags.Append(identity.SetAttribute(ctx, path.Root(name), value)...)
	}
}

func identitySchema(names ...string) identityschema.Schema {
	s := identityschema.Schema{Attributes: map[string]identityschema.Attribute{}}
	for _, name := range names {
		s.Attributes[name] = identityschema.StringAttribute{RequiredForImport: true}
	}
	return s
}

func setSchema() schema.Schema {
	return schema.Schema{Attributes: map[string]schema.Attribute{
		"name":   identifying(),
		"labels": schema.MapAttribute{Optional: true, ElementType: types.StringType},
		"label_selector": schema.SingleNestedAttribute{Optional: true, Attributes: map[string]schema.Attribute{
			"match_labels": schema.MapAttribute{Optional: true, ElementType: types.StringType},
			"match_expressions": schema.ListNestedAttribute{Optional: true, NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"key":      schema.StringAttribute{Required: true},
				"operator": schema.StringAttribute{Required: true},
				"values":   schema.SetAttribute{Optional: true, ElementType: types.StringType},
			}}},
		}},
		"managed_namespaces": schema.SetAttribute{Optional: true, ElementType: types.StringType},
		"adopt":              schema.BoolAttribute{Optional: true},
		"force_conflicts":    schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true)},
	}}
}

func workSchema() schema.Schema {
	return schema.Schema{Attributes: map[string]schema.Attribute{
		"managed_cluster": identifying(),
		"name":            identifying(),
		"labels":          schema.MapAttribute{Optional: true, ElementType: types.StringType},
		"objects":         schema.DynamicAttribute{Optional: true},
		"manifests":       schema.ListAttribute{Optional: true, ElementType: types.StringType},
		"adopt":           schema.BoolAttribute{Optional: true},
		"force_conflicts": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true)},
	}}
}

func identifying() schema.StringAttribute {
	return schema.StringAttribute{Required: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}}
}
