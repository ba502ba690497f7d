package addon

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

var _ datasource.DataSourceWithConfigure = (*clusterAddOnsDataSource)(nil)

type clusterAddOnsDataSource struct{ crud.DataSource }

type clusterAddOnsModel struct {
	ManagedCluster types.String         `tfsdk:"managed_cluster"`
	Name           types.String         `tfsdk:"name"`
	LabelSelector  types.String         `tfsdk:"label_selector"`
	Available      types.String         `tfsdk:"available"`
	AddOns         []observedAddOnModel `tfsdk:"addons"`
}

// NewClusterAddOnsDataSource is the data source muster_cluster_addons.
func NewClusterAddOnsDataSource() datasource.DataSource { return &clusterAddOnsDataSource{} }

func (d *clusterAddOnsDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cluster_addons"
}

func (d *clusterAddOnsDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Add-ons in clusters: all of one cluster, one of them in all clusters, or all there " +
			"are, with how they are.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": schema.StringAttribute{
				MarkdownDescription: "Only the add-ons of this cluster.", Optional: true,
				Validators: []validator.String{attribute.ValidName("cluster name")},
			},
			"name": schema.StringAttribute{
				MarkdownDescription: "Only this add-on.", Optional: true,
				Validators: []validator.String{attribute.ValidObjectName("add-on name")},
			},
			"label_selector": schema.StringAttribute{
				MarkdownDescription: "Only those with these labels: a label selector in the notation of " +
					"kubectl.", Optional: true,
				Validators: []validator.String{attribute.ValidSelector()},
			},
			"available": schema.StringAttribute{
				MarkdownDescription: "Only those that are so: `True`, `False`, or `Unknown`, which includes those " +
					"that nobody has reported on.", Optional: true,
				Validators: attribute.OneOf(metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown),
			},
			"addons": schema.ListNestedAttribute{
				MarkdownDescription: "The add-ons, in the order of their clusters and names.",
				Computed:            true,
				NestedObject:        schema.NestedAttributeObject{Attributes: observedAddOnAttributes()},
			},
		},
	}
}

func (d *clusterAddOnsDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if d.Deferred(req, resp) {
		return
	}
	var model clusterAddOnsModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	client := d.Hub.QueryClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	options := kube.ListOptions{Namespace: model.ManagedCluster.ValueString(), LabelSelector: model.LabelSelector.ValueString()}
	if name := model.Name.ValueString(); name != "" {
		options.FieldSelector = named(name).FieldSelector
	}
	list := &v1alpha1.ManagedClusterAddOnList{}
	if err := client.List(ctx, list, options); err != nil {
		of := "all clusters"
		if !model.ManagedCluster.IsNull() {
			of = fmt.Sprintf("cluster %q", model.ManagedCluster.ValueString())
		}
		hub.AddAPIError(&resp.Diagnostics, client, "list the add-ons of "+of, err)
		return
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.ManagedClusterAddOn) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	model.AddOns = []observedAddOnModel{}
	for i := range list.Items {
		x := observedAddOn(&list.Items[i])
		is := cmp.Or(x.Available.ValueString(), string(metav1.ConditionUnknown))
		if model.Available.IsNull() || is == model.Available.ValueString() {
			model.AddOns = append(model.AddOns, x)
		}
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}
