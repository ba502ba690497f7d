// Package provider is the Terraform provider: managed clusters and what governs
// them as resources, data sources, ephemeral resources and list resources. It talks
// to the hub over the Kubernetes API, and to a managed cluster only to install the
// agent there.
package provider

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/access"
	actions "github.com/muster-fleet/terraform-provider-muster/provider/internal/action"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/addon"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/connection"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/clusterimport"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/clusterset"
	functions "github.com/muster-fleet/terraform-provider-muster/provider/internal/function"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/logicalcloud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/managedcluster"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/namespace"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/placement"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/replicaset"
)

// Address is the provider's address in the registry.
const Address = "registry.terraform.io/muster-fleet/muster"

var (
	_ provider.Provider                       = (*musterProvider)(nil)
	_ provider.ProviderWithActions            = (*musterProvider)(nil)
	_ provider.ProviderWithEphemeralResources = (*musterProvider)(nil)
	_ provider.ProviderWithFunctions          = (*musterProvider)(nil)
	_ provider.ProviderWithValidateConfig     = (*musterProvider)(nil)
	_ provider.ProviderWithListResources      = (*musterProvider)(nil)
)

type musterProvider struct {
	version string
	getenv  func(string) string
}

// New returns a constructor of the provider. version appears in the user agent
// of its requests.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &musterProvider{version: version, getenv: os.Getenv} }
}

func (p *musterProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "muster"
	resp.Version = p.version
}

func (p *musterProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	attributes := connection.ProviderAttributes()
	attributes["preview"] = schema.StringAttribute{
		MarkdownDescription: "Whether plans of works and replica sets ask the clusters' agents what a change would " +
			"do there, where a resource does not set `preview` itself. " + hub.PreviewModes + " Defaults to `none`.",
		Optional:   true,
		Validators: attribute.OneOf(hub.PreviewNone, hub.PreviewClusters, hub.PreviewEnforced),
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Brings a fleet of Kubernetes clusters under one configuration: registers clusters " +
			"with a hub that speaks Open Cluster Management's API (muster's own or an upstream one), groups them " +
			"into sets, selects among them with placements, and ships workloads to them as manifest works.\n\n" +
			"The provider block says how to reach the hub, in the words of the provider `kubernetes`. Configuring " +
			"it contacts nobody and its values may be unknown while planning, or ephemeral; there is no fallback to " +
			"`localhost` or to `~/.kube/config`.\n\n" + connection.PrecedenceText,
		Attributes: attributes,
	}
}

// ValidateConfig checks how the attributes of the provider block go together.
func (p *musterProvider) ValidateConfig(
	ctx context.Context, req provider.ValidateConfigRequest, resp *provider.ValidateConfigResponse,
) {
	config := connection.Model(attribute.ValuesOf(ctx, req.Config, &resp.Diagnostics))
	if !resp.Diagnostics.HasError() {
		config.Check(&resp.Diagnostics)
	}
}

// Configure only notes the connection, and warns if it can't be one. The first
// resource that needs the hub makes the client and reports what is wrong with it.
func (p *musterProvider) Configure(
	ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse,
) {
	config := connection.Model(attribute.ValuesOf(ctx, req.Config, &resp.Diagnostics))
	if resp.Diagnostics.HasError() {
		return
	}
	unknown := config.Unknown()
	if len(unknown) > 0 && req.ClientCapabilities.DeferralAllowed {
		resp.Deferred = &provider.Deferred{Reason: provider.DeferredReasonProviderConfigUnknown}
	}
	where := config.WithEnvironment(p.getenv, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	preview := hub.PreviewMode(attribute.Values(config).Text("preview"))
	hub := hub.New(where, unknown, p.version)
	hub.Preview = preview
	hub.WarnIfMisconfigured(&resp.Diagnostics)
	resp.ResourceData = hub
	resp.DataSourceData = hub
	resp.EphemeralResourceData = hub
	resp.ListResourceData = hub
	resp.ActionData = hub
}

// kinds are the kinds of objects of the hub, each with its resource, and with its list
// resource and its data source where it has them.
func kinds() []crud.Declared {
	return []crud.Declared{
		managedcluster.Cluster(),
		clusterset.Set(),
		clusterset.Binding(),
		logicalcloud.Cloud(),
		manifestwork.Work(),
		replicaset.Set(),
		namespace.Namespace(),
		placement.Placement(),
		placement.Score(),
		logicalcloud.Role(),
		registration.Acceptance(),
		registration.Registration(),
		registration.TokenKind(),
		access.Request(),
		addon.AddOn(),
		addon.InCluster(),
		addon.Template(),
		addon.DeploymentConfig(),
		clusterimport.Import(),
		logicalcloud.Wait(),
		manifestwork.Wait(),
		replicaset.Wait(),
	}
}

func (p *musterProvider) Resources(context.Context) []func() resource.Resource {
	return append(crud.Constructors(kinds(), crud.Declared.NewResource), klusterlet.New)
}

func (p *musterProvider) DataSources(context.Context) []func() datasource.DataSource {
	return append(crud.Constructors(kinds(), crud.Declared.NewDataSource), []func() datasource.DataSource{
		managedcluster.NewProfilesDataSource,
		managedcluster.NewListDataSource,
		placement.NewDecisionsDataSource,
		placement.NewPreviewDataSource,
		access.NewSubject,
		replicaset.NewRendered,
		addon.NewClusterAddOnsDataSource,
		addon.NewRendered,
	}...)
}

// ListResources are for all resources but muster_klusterlet: the hub does not know
// how to reach the clusters' API servers.
func (p *musterProvider) ListResources(context.Context) []func() list.ListResource {
	return crud.Constructors(kinds(), crud.Declared.NewListResource)
}

func (p *musterProvider) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{
		registration.NewKubeconfig,
		access.NewKubeconfig,
	}
}

func (p *musterProvider) Functions(context.Context) []func() function.Function {
	return []func() function.Function{
		functions.NewManifestsFromYAML,
		functions.NewKubeconfig,
		functions.NewClusterName,
		functions.NewLabelSelector,
		functions.NewParseLabelSelector,
		functions.NewKlusterletManifests,
		functions.NewAttributeErrors(p.Resources),
	}
}

func (p *musterProvider) Actions(context.Context) []func() action.Action { return actions.All() }

// Server is the provider as Terraform talks to it. It answers lists and actions, too.
type Server interface {
	tfprotov6.ProviderServer
	tfprotov6.ListResourceServer
	tfprotov6.ActionServer
}

// NewServer is a provider. Each call makes another one.
func NewServer(version string) (Server, error) {
	made, err := providerserver.NewProtocol6WithError(New(version)())()
	if err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	full, ok := made.(Server)
	if !ok {
		return nil, fmt.Errorf("start the provider: its server %T has no lists or actions", made)
	}
	g := &guard{Server: full}
	g.schemas = sync.OnceValue(func() *tfprotov6.GetProviderSchemaResponse {
		// The framework keeps it, and needs it for whatever comes next.
		all, err := full.GetProviderSchema(context.Background(), &tfprotov6.GetProviderSchemaRequest{})
		if err != nil {
			return &tfprotov6.GetProviderSchemaResponse{} // Terraform asks for the schema too, and gets the error.
		}
		return all
	})
	return g, nil
}

// guard checks each configuration before the server gets it. The provider refuses what none
// of its attributes can take before the framework sees it: numbers that are not whole, and
// null in a list, set or map. The framework takes the first for a defect of the provider,
// and an attribute would take the second for an empty text.
type guard struct {
	Server
	schemas func() *tfprotov6.GetProviderSchemaResponse
}

// check is what is wrong with a configuration. The server explains what can't be read, and
// what has no schema.
func check(schema *tfprotov6.Schema, config *tfprotov6.DynamicValue) []*tfprotov6.Diagnostic {
	if schema == nil || config == nil {
		return nil
	}
	value, err := config.Unmarshal(schema.ValueType())
	if err != nil {
		return nil
	}
	return checkWellFormed(schema.ValueType(), value)
}

// checkWellFormed lists what is wrong with a configuration of the type that its schema has. It
// looks into no dynamic attribute, whose values mean what they mean elsewhere.
func checkWellFormed(kind tftypes.Type, config tftypes.Value) []*tfprotov6.Diagnostic {
	var found []*tfprotov6.Diagnostic
	_ = tftypes.Walk(config, func(at *tftypes.AttributePath, value tftypes.Value) (bool, error) {
		step, _, err := tftypes.WalkAttributePath(kind, at)
		if of, ok := step.(tftypes.Type); err != nil || !ok || of.Is(tftypes.DynamicPseudoType) {
			return false, nil //nolint:nilerr // what the schema does not know is Terraform's to refuse
		}
		if summary, detail := problemOf(at, value); summary != "" {
			place, _ := placeOf(at)
			found = append(found, &tfprotov6.Diagnostic{
				Severity: tfprotov6.DiagnosticSeverityError, Summary: summary, Detail: detail, Attribute: place,
			})
		}
		return true, nil
	})
	slices.SortFunc(found, func(a, b *tfprotov6.Diagnostic) int { return cmp.Compare(a.Detail, b.Detail) })
	return found
}

// problemOf is what is wrong with a value: null in a collection, or a number that is not whole.
func problemOf(at *tftypes.AttributePath, value tftypes.Value) (summary, detail string) {
	_, name := placeOf(at)
	if value.IsNull() {
		const list = "[for value in VALUES : value if value != null]"
		var collection string
		remedy := list
		switch at.LastStep().(type) {
		case tftypes.ElementKeyInt:
			collection = "list"
		case tftypes.ElementKeyValue:
			name, collection = "A value of "+name, "set"
		case tftypes.ElementKeyString:
			collection, remedy = "map", "{ for key, value in VALUES : key => value if value != null }"
		default:
			return "", ""
		}
		return "Null in a " + collection, fmt.Sprintf("%s is null, and this %s takes no null. Leave the value out, "+
			"for example with %s.", name, collection, remedy)
	}
	var number big.Float
	if !value.IsKnown() || !value.Type().Is(tftypes.Number) || value.As(&number) != nil {
		return "", ""
	}
	text := number.Text('g', 20)
	if !number.IsInt() {
		return "Not a whole number", fmt.Sprintf("%s is %s, but it takes a whole number. Write it without a fraction, "+
			"such as %s.", name, text, number.Text('f', 0))
	}
	if _, accuracy := number.Int64(); accuracy != big.Exact {
		return "Number out of range", fmt.Sprintf("%s is %s, but it takes a whole number of 64 bits. Write a smaller "+
			"one.", name, text)
	}
	return "", ""
}

// placeOf is where a value is, for Terraform and for people. Nothing in a set has a path:
// it is named by the set.
func placeOf(at *tftypes.AttributePath) (place *tftypes.AttributePath, name string) {
	place = at
	for i, step := range at.Steps() {
		switch step := step.(type) {
		case tftypes.AttributeName:
			name += "." + string(step)
		case tftypes.ElementKeyInt:
			name += fmt.Sprintf("[%d]", step)
		case tftypes.ElementKeyString:
			name += fmt.Sprintf("[%q]", string(step))
		case tftypes.ElementKeyValue:
			if place == at {
				place = tftypes.NewAttributePathWithSteps(at.Steps()[:i])
			}
		}
	}
	return place, strings.TrimPrefix(name, ".")
}

// ValidateProviderConfig implements tfprotov6.ProviderServer.
func (g *guard) ValidateProviderConfig(
	ctx context.Context, req *tfprotov6.ValidateProviderConfigRequest,
) (*tfprotov6.ValidateProviderConfigResponse, error) {
	if wrong := check(g.schemas().Provider, req.Config); len(wrong) > 0 {
		return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: req.Config, Diagnostics: wrong}, nil
	}
	return g.Server.ValidateProviderConfig(ctx, req)
}

// ValidateResourceConfig implements tfprotov6.ResourceServer.
func (g *guard) ValidateResourceConfig(
	ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest,
) (*tfprotov6.ValidateResourceConfigResponse, error) {
	if wrong := check(g.schemas().ResourceSchemas[req.TypeName], req.Config); len(wrong) > 0 {
		return &tfprotov6.ValidateResourceConfigResponse{Diagnostics: wrong}, nil
	}
	return g.Server.ValidateResourceConfig(ctx, req)
}

// ValidateDataResourceConfig implements tfprotov6.DataSourceServer.
func (g *guard) ValidateDataResourceConfig(
	ctx context.Context, req *tfprotov6.ValidateDataResourceConfigRequest,
) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	if wrong := check(g.schemas().DataSourceSchemas[req.TypeName], req.Config); len(wrong) > 0 {
		return &tfprotov6.ValidateDataResourceConfigResponse{Diagnostics: wrong}, nil
	}
	return g.Server.ValidateDataResourceConfig(ctx, req)
}

// ValidateEphemeralResourceConfig implements tfprotov6.EphemeralResourceServer.
func (g *guard) ValidateEphemeralResourceConfig(
	ctx context.Context, req *tfprotov6.ValidateEphemeralResourceConfigRequest,
) (*tfprotov6.ValidateEphemeralResourceConfigResponse, error) {
	if wrong := check(g.schemas().EphemeralResourceSchemas[req.TypeName], req.Config); len(wrong) > 0 {
		return &tfprotov6.ValidateEphemeralResourceConfigResponse{Diagnostics: wrong}, nil
	}
	return g.Server.ValidateEphemeralResourceConfig(ctx, req)
}

// ValidateListResourceConfig implements tfprotov6.ListResourceServer.
func (g *guard) ValidateListResourceConfig(
	ctx context.Context, req *tfprotov6.ValidateListResourceConfigRequest,
) (*tfprotov6.ValidateListResourceConfigResponse, error) {
	if wrong := check(g.schemas().ListResourceSchemas[req.TypeName], req.Config); len(wrong) > 0 {
		return &tfprotov6.ValidateListResourceConfigResponse{Diagnostics: wrong}, nil
	}
	return g.Server.ValidateListResourceConfig(ctx, req)
}

// ValidateActionConfig implements tfprotov6.ActionServer.
func (g *guard) ValidateActionConfig(
	ctx context.Context, req *tfprotov6.ValidateActionConfigRequest,
) (*tfprotov6.ValidateActionConfigResponse, error) {
	if action := g.schemas().ActionSchemas[req.ActionType]; action != nil {
		if wrong := check(action.Schema, req.Config); len(wrong) > 0 {
			return &tfprotov6.ValidateActionConfigResponse{Diagnostics: wrong}, nil
		}
	}
	return g.Server.ValidateActionConfig(ctx, req)
}
