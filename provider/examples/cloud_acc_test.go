package examples_test

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	dataschema "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	providerschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// The examples for clusters in clouds use providers of hundreds of megabytes. Tests
// run them with stand-ins, which know what the examples use: the names and types of
// arguments and attributes, as those providers document them. What the providers do
// is not tested.

// cloud is what the stand-ins say about the clusters that exist before Terraform runs
// (name paris) and about those that it creates.
type cloud struct{ existing, created kubernetes }

// kubernetes is a cluster: its address without https://, its authority's certificate
// in base64, and its kubeconfig.
type kubernetes struct{ address, authority, kubeconfig string }

// serveClouds serves a stand-in for each cloud.
func serveClouds(w *acctest.Terraform, c cloud) {
	for address, p := range map[string]*standIn{
		"hashicorp/aws":     amazon(c),
		"hashicorp/google":  google(c),
		"hashicorp/azurerm": azure(c),
		"tehcyx/kind":       kind(c),
	} {
		w.Serve(address, providerserver.NewProtocol6(p))
	}
}

func amazon(c cloud) *standIn {
	return &standIn{
		name:      "aws",
		arguments: map[string]providerschema.Attribute{"region": providerschema.StringAttribute{Optional: true}},
		kinds: []*object{{
			cloud:     c,
			name:      "eks_cluster",
			arguments: []string{"name"},
			creation:  []string{"role_arn"},
			blocks: map[string]schema.Block{"vpc_config": schema.ListNestedBlock{NestedObject: schema.NestedBlockObject{
				Attributes: map[string]schema.Attribute{"subnet_ids": schema.SetAttribute{Required: true, ElementType: types.StringType}},
			}}},
			reports: func(k kubernetes) map[string]attr.Value {
				return map[string]attr.Value{
					"endpoint":              types.StringValue("https://" + k.address),
					"certificate_authority": objects(map[string]string{"data": k.authority}),
				}
			},
		}},
	}
}

func google(c cloud) *standIn {
	return &standIn{
		name:      "google",
		arguments: map[string]providerschema.Attribute{"project": providerschema.StringAttribute{Optional: true}},
		kinds: []*object{{
			cloud:     c,
			name:      "container_cluster",
			arguments: []string{"name", "location"},
			switches:  []string{"enable_autopilot"},
			reports: func(k kubernetes) map[string]attr.Value {
				return map[string]attr.Value{
					"endpoint":    types.StringValue(k.address),
					"master_auth": objects(map[string]string{"cluster_ca_certificate": k.authority, "client_certificate": "", "client_key": ""}),
				}
			},
		}},
	}
}

func azure(c cloud) *standIn {
	pool := map[string]schema.Attribute{
		"name": schema.StringAttribute{Required: true}, "vm_size": schema.StringAttribute{Optional: true},
		"node_count": schema.Int64Attribute{Optional: true},
	}
	return &standIn{
		name:   "azurerm",
		blocks: map[string]providerschema.Block{"features": providerschema.ListNestedBlock{}},
		kinds: []*object{{
			cloud:     c,
			name:      "kubernetes_cluster",
			arguments: []string{"name", "resource_group_name"},
			creation:  []string{"location", "dns_prefix"},
			blocks: map[string]schema.Block{
				"default_node_pool": schema.ListNestedBlock{NestedObject: schema.NestedBlockObject{Attributes: pool}},
				"identity": schema.ListNestedBlock{NestedObject: schema.NestedBlockObject{
					Attributes: map[string]schema.Attribute{"type": schema.StringAttribute{Required: true}},
				}},
			},
			secret: "kube_config",
			reports: func(k kubernetes) map[string]attr.Value {
				return map[string]attr.Value{
					"location":    types.StringValue("northeurope"),
					"kube_config": objects(map[string]string{"host": "https://" + k.address, "cluster_ca_certificate": k.authority, "password": ""}),
				}
			},
		}},
	}
}

func kind(c cloud) *standIn {
	return &standIn{
		name: "kind",
		kinds: []*object{{
			cloud:     c,
			name:      "cluster",
			arguments: []string{"name"},
			switches:  []string{"wait_for_ready"},
			secret:    "kubeconfig",
			reports: func(k kubernetes) map[string]attr.Value {
				return map[string]attr.Value{"kubeconfig": types.StringValue(k.kubeconfig)}
			},
		}},
	}
}

// objects is a list of one object with texts.
func objects(texts map[string]string) attr.Value {
	kinds, values := map[string]attr.Type{}, map[string]attr.Value{}
	for name, text := range texts {
		kinds[name], values[name] = types.StringType, types.StringValue(text)
	}
	return types.ListValueMust(types.ObjectType{AttrTypes: kinds}, []attr.Value{types.ObjectValueMust(kinds, values)})
}

// standIn is a provider with the kinds of objects that the examples use.
type standIn struct {
	name      string
	arguments map[string]providerschema.Attribute
	blocks    map[string]providerschema.Block
	kinds     []*object
}

func (p *standIn) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = p.name
}

func (p *standIn) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = providerschema.Schema{Attributes: p.arguments, Blocks: p.blocks}
}

func (p *standIn) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {
}

func (p *standIn) Resources(context.Context) (all []func() resource.Resource) {
	for _, kind := range p.kinds {
		all = append(all, func() resource.Resource { return kind })
	}
	return all
}

func (p *standIn) DataSources(context.Context) (all []func() datasource.DataSource) {
	for _, kind := range p.kinds {
		all = append(all, func() datasource.DataSource { return found{kind} })
	}
	return all
}

// object is a kind of object of a cloud.
type object struct {
	cloud cloud
	name  string
	// arguments have to be given to find one and to create one, creation only to
	// create one; switches may be given.
	arguments, creation, switches []string
	blocks                        map[string]schema.Block
	// reports is what the cloud says about it; secret is the sensitive part.
	reports func(kubernetes) map[string]attr.Value
	secret  string
}

func (o *object) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + o.name
}

func (o *object) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema.Attributes, resp.Schema.Blocks = map[string]schema.Attribute{}, o.blocks
	for name, value := range o.reports(o.cloud.created) {
		if list, ok := value.Type(context.Background()).(types.ListType); ok {
			resp.Schema.Attributes[name] = schema.ListAttribute{Computed: true, Sensitive: name == o.secret, ElementType: list.ElemType}
		} else {
			resp.Schema.Attributes[name] = schema.StringAttribute{Computed: true, Sensitive: name == o.secret}
		}
	}
	for _, names := range [][]string{o.arguments, o.creation} {
		for _, name := range names {
			resp.Schema.Attributes[name] = schema.StringAttribute{Required: true}
		}
	}
	for _, name := range o.switches {
		resp.Schema.Attributes[name] = schema.BoolAttribute{Optional: true}
	}
}

// report writes what the cloud says about a cluster, except for what the
// configuration has given.
func (o *object) report(ctx context.Context, state *tfsdk.State, cluster kubernetes, given []string) (problems diag.Diagnostics) {
	for name, value := range o.reports(cluster) {
		if !slices.Contains(given, name) {
			problems.Append(state.SetAttribute(ctx, path.Root(name), value)...)
		}
	}
	return problems
}

func (o *object) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	resp.State.Raw = req.Plan.Raw
	resp.Diagnostics = o.report(ctx, &resp.State, o.cloud.created, o.creation)
}

func (o *object) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

func (o *object) Update(_ context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

func (o *object) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

// found is the data source of a kind.
type found struct{ *object }

func (f found) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + f.name
}

func (f found) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema.Attributes = map[string]dataschema.Attribute{}
	for name, value := range f.reports(f.cloud.existing) {
		if list, ok := value.Type(context.Background()).(types.ListType); ok {
			resp.Schema.Attributes[name] = dataschema.ListAttribute{Computed: true, Sensitive: name == f.secret, ElementType: list.ElemType}
		} else {
			resp.Schema.Attributes[name] = dataschema.StringAttribute{Computed: true, Sensitive: name == f.secret}
		}
	}
	for _, name := range f.arguments {
		resp.Schema.Attributes[name] = dataschema.StringAttribute{Required: true}
	}
}

func (f found) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	resp.State.Raw = req.Config.Raw
	resp.Diagnostics = f.report(ctx, &resp.State, f.cloud.existing, nil)
}
