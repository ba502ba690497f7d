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
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
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
