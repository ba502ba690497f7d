package managedcluster

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

var _ datasource.DataSourceWithConfigure = (*managedClustersDataSource)(nil)

type managedClustersDataSource struct{ crud.DataSource }

type managedClustersModel struct {
	Selector   types.String           `tfsdk:"label_selector"`
	ClusterSet types.String           `tfsdk:"cluster_set"`
	Names      []types.String         `tfsdk:"names"`
	Clusters   []observedClusterModel `tfsdk:"clusters"`
}

// NewListDataSource is the data source muster_managed_clusters.
func NewListDataSource() datasource.DataSource { return &managedClustersDataSource{} }

func (d *managedClustersDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_managed_clusters"
}

func (d *managedClustersDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The managed clusters of the hub, all or those that a selector picks, with their present state.",
		Attributes: map[string]schema.Attribute{
			"label_selector": schema.StringAttribute{
				MarkdownDescription: "Label selector in the notation of kubectl, such as `env=prod,region in (eu,us)`. If omitted, all clusters.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidSelector()},
			},
			"cluster_set": schema.StringAttribute{
				MarkdownDescription: "Only the clusters that are put in this set by their label.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidName("cluster set name")},
			},
			"names": schema.ListAttribute{
				MarkdownDescription: "Names of the clusters, in alphabetical order.",
				Computed:            true,
				ElementType:         types.StringType,
			},
			"clusters": schema.ListNestedAttribute{
				MarkdownDescription: "The clusters, in the order of their names.",
				Computed:            true,
				NestedObject:        schema.NestedAttributeObject{Attributes: observedClusterAttributes()},
			},
		},
	}
}

func (d *managedClustersDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if d.Deferred(req, resp) {
		return
	}
	var model managedClustersModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	client := d.Hub.QueryClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	selector := model.Selector.ValueString()
	if set := model.ClusterSet.ValueString(); set != "" {
		selector = crud.SelectorText(selector, cluster.ClusterSetLabel+"="+set)
	}
	list := &clusterv1.ManagedClusterList{}
	if err := client.List(ctx, list, kube.ListOptions{LabelSelector: selector}); err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, "list managed clusters", err)
		return
	}
	slices.SortFunc(list.Items, func(a, b clusterv1.ManagedCluster) int { return strings.Compare(a.Name, b.Name) })
	model.Names, model.Clusters = []types.String{}, []observedClusterModel{}
	for i := range list.Items {
		model.Names = append(model.Names, types.StringValue(list.Items[i].Name))
		model.Clusters = append(model.Clusters, observedCluster(&list.Items[i]))
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}
