// Package provider is the Terraform provider: managed clusters and what governs
// them as resources, data sources, ephemeral resources and list resources. It talks
// to the hub over the Kubernetes API, and to a managed cluster only to install the
// agent there.
package provider

import (
	"context"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/access"
	actions "github.com/muster-fleet/terraform-provider-muster/provider/internal/action"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/addon"
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
	resp.Schema = schema.Schema{
		MarkdownDescription: "Brings a fleet of Kubernetes clusters under one configuration: registers clusters with " +
			"a hub that speaks " +
			"Open Cluster Management's API (muster's own or an upstream one), groups them into sets, selects among " +
			"them with placements, " +
			"and ships workloads to them as manifest works.\n\n" +
			"The provider block says how to reach the hub, in the words of the provider `kubernetes`. Configuring it " +
			"contacts nobody and its values may be unknown while planning, or ephemeral; " +
			"there is no fallback to `localhost` or to `~/.kube/config`.\n\n" + connection.PrecedenceText,
		Attributes: connection.ProviderAttributes(),
	}
}

// ValidateConfig checks how the attributes of the provider block go together.
func (p *musterProvider) ValidateConfig(
	ctx context.Context, req provider.ValidateConfigRequest, resp *provider.ValidateConfigResponse,
) {
	var config connection.Model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if !resp.Diagnostics.HasError() {
		config.Check(&resp.Diagnostics)
	}
}

// Configure only notes the connection, and warns if it can't be one. The first
// resource that needs the hub makes the client and reports what is wrong with it.
func (p *musterProvider) Configure(
	ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse,
) {
	var config connection.Model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
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
	hub := hub.New(where, unknown, p.version)
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
	return append(crud.Resources(kinds()), klusterlet.New)
}

func (p *musterProvider) DataSources(context.Context) []func() datasource.DataSource {
	return append(crud.DataSources(kinds()), []func() datasource.DataSource{
		managedcluster.NewProfilesDataSource,
		managedcluster.NewListDataSource,
		placement.NewDecisionsDataSource,
		placement.NewPreviewDataSource,
		access.NewSubject,
		addon.NewClusterAddOnsDataSource,
	}...)
}

// ListResources are for all resources but muster_klusterlet: the hub does not know
// how to reach the clusters' API servers.
func (p *musterProvider) ListResources(context.Context) []func() list.ListResource {
	return crud.ListResources(kinds())
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
