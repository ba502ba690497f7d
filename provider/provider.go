// Package provider is the Terraform provider: managed clusters and what governs
// them as resources, data sources and ephemeral resources. It talks to the hub
// over the Kubernetes API, and to a managed cluster only to install the agent
// there.
package provider

import (
	"context"
	"os"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Address is the provider's address in the registry.
const Address = "registry.terraform.io/muster-fleet/muster"

var (
	_ provider.Provider                       = (*musterProvider)(nil)
	_ provider.ProviderWithEphemeralResources = (*musterProvider)(nil)
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
		MarkdownDescription: "Brings a fleet of Kubernetes clusters under one configuration: registers clusters with a hub that speaks " +
			"Open Cluster Management's API (muster's own or an upstream one), groups them into sets, selects among them with placements, " +
			"and ships workloads to them as manifest works.\n\n" +
			"The provider block says how to reach the hub. Configuring it contacts nobody and its values may be unknown while planning; " +
			"there is no fallback to `localhost` or to `~/.kube/config`.",
		Attributes: providerConnectionAttributes(),
	}
}

// Configure only notes the connection. The first resource that needs the hub
// makes the client and reports what is wrong with it.
func (p *musterProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var config connectionModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	unknown := config.unknown()
	if len(unknown) > 0 && req.ClientCapabilities.DeferralAllowed {
		resp.Deferred = &provider.Deferred{Reason: provider.DeferredReasonProviderConfigUnknown}
	}
	hub := newHub(config.withEnvironment(p.getenv).connection(), unknown, p.version)
	resp.ResourceData = hub
	resp.DataSourceData = hub
	resp.EphemeralResourceData = hub
}

func (p *musterProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		newManagedClusterResource,
		newClusterAcceptanceResource,
		newClusterRegistrationResource,
		newBootstrapTokenResource,
		newKlusterletResource,
		newManagedClusterSetResource,
		newManagedClusterSetBindingResource,
		newPlacementResource,
		newAddOnPlacementScoreResource,
		newManifestWorkResource,
		newManifestWorkReplicaSetResource,
	}
}

func (p *musterProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		newManagedClusterDataSource,
		newManifestWorkDataSource,
		newClusterProfilesDataSource,
		newManagedClustersDataSource,
		newManifestWorkReplicaSetDataSource,
		newPlacementDecisionsDataSource,
		newPlacementPreviewDataSource,
	}
}

func (p *musterProvider) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{
		newBootstrapKubeconfigEphemeral,
	}
}

// withEnvironment fills in from the environment what the configuration leaves
// out. A kubeconfig from the environment only counts where the configuration
// names no server, so that a variable in somebody's shell can't mix into it.
func (m connectionModel) withEnvironment(getenv func(string) string) connectionModel {
	fill := func(target *types.String, names ...string) {
		for _, name := range names {
			if value := getenv(name); target.IsNull() && value != "" {
				*target = types.StringValue(value)
			}
		}
	}
	if m.KubeconfigPath.IsNull() && m.Kubeconfig.IsNull() && m.Host.IsNull() {
		fill(&m.Host, "MUSTER_HOST")
		fill(&m.KubeconfigPath, "MUSTER_KUBECONFIG")
		if m.Host.IsNull() {
			fill(&m.KubeconfigPath, "KUBECONFIG")
		}
	}
	fill(&m.Context, "MUSTER_CONTEXT")
	if m.ClientCertificate.IsNull() && m.Exec == nil {
		fill(&m.Token, "MUSTER_TOKEN")
	}
	fill(&m.CA, "MUSTER_CLUSTER_CA_CERTIFICATE")
	if m.Token.IsNull() && m.Exec == nil {
		fill(&m.ClientCertificate, "MUSTER_CLIENT_CERTIFICATE")
		fill(&m.ClientKey, "MUSTER_CLIENT_KEY")
	}
	fill(&m.ProxyURL, "MUSTER_PROXY_URL")
	if insecure, err := strconv.ParseBool(getenv("MUSTER_INSECURE")); err == nil && m.Insecure.IsNull() {
		m.Insecure = types.BoolValue(insecure)
	}
	return m
}
