package managedcluster

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

var _ datasource.DataSourceWithConfigure = (*managedClusterDataSource)(nil)

type managedClusterDataSource struct{ crud.DataSource }

// NewDataSource is the data source muster_managed_cluster.
func NewDataSource() datasource.DataSource { return &managedClusterDataSource{} }

func (d *managedClusterDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_managed_cluster"
}

func (d *managedClusterDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := observedClusterAttributes()
	attributes["name"] = schema.StringAttribute{
		MarkdownDescription: "Name of the cluster.",
		Required:            true,
		Validators:          []validator.String{attribute.ValidClusterName()},
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "The present state of one managed cluster: whether it is accepted, joined and available, its version, claims and resources.",
		Attributes:          attributes,
	}
}

func (d *managedClusterDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if d.Deferred(req, resp) {
		return
	}
	var name string
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("name"), &name)...)
	client := d.Hub.QueryClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	object := &clusterv1.ManagedCluster{}
	if err := client.Get(ctx, object, "", name); kube.IsNotFound(err, name) {
		resp.Diagnostics.AddAttributeError(path.Root("name"), fmt.Sprintf("There is no managed cluster %q", name),
			fmt.Sprintf("The hub %s does not know it. The clusters that it knows: kubectl get managedclusters", client.Host()))
		return
	} else if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, fmt.Sprintf("read managed cluster %q", name), err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, observedCluster(object))...)
}
