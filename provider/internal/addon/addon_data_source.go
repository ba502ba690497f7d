package addon

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

var _ datasource.DataSourceWithConfigure = (*addOnDataSource)(nil)

type addOnDataSource struct{ crud.DataSource }

type addOnDataModel struct {
	addOnSpecModel
	addOnStatusModel
	Clusters []observedAddOnModel `tfsdk:"clusters"`
}

// NewDataSource is the data source muster_addon.
func NewDataSource() datasource.DataSource { return &addOnDataSource{} }

func (d *addOnDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_addon"
}

func (d *addOnDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := attribute.ObservedAttributes(addOnAttributes())
	for name, attribute := range attribute.ObservedAttributes(addOnStatusAttributes()) {
		attributes[name] = attribute
	}
	attributes["name"] = schema.StringAttribute{
		MarkdownDescription: "Name of the add-on.", Required: true,
		Validators: []validator.String{attribute.ValidObjectName("add-on name")},
	}
	attributes["clusters"] = schema.ListNestedAttribute{
		MarkdownDescription: "The add-on in each cluster that has it, in the order of the clusters' names.",
		Computed:            true,
		NestedObject:        schema.NestedAttributeObject{Attributes: observedAddOnAttributes()},
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "An add-on, with how far its configuration has spread and how it is in each cluster.",
		Attributes:          attributes,
	}
}

func (d *addOnDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if d.Deferred(req, resp) {
		return
	}
	var name string
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("name"), &name)...)
	client := d.Hub.QueryClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	object := &v1alpha1.ClusterManagementAddOn{}
	if err := client.Get(ctx, object, "", name); kube.IsNotFound(err, name) {
		resp.Diagnostics.AddAttributeError(path.Root("name"), fmt.Sprintf("There is no add-on %q", name),
			fmt.Sprintf("The hub %s does not know it. Those that it knows: kubectl get "+
				"clustermanagementaddons", client.Host()))
		return
	} else if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, fmt.Sprintf("read add-on %q", name), err)
		return
	}
	addOns, err := inClusters(ctx, client, name)
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, fmt.Sprintf("list add-on %q in the clusters", name), err)
		return
	}
	model := addOnDataModel{
		addOnSpecModel: importAddOnSpec(object, func(_ metav1.Object, _ string, live map[string]string) types.Map {
			shown := attribute.WithoutMark(live)
			delete(shown, addon.LifecycleAnnotation) // managed_by tells
			return attribute.StringMapValue(shown)
		}),
		Clusters: []observedAddOnModel{},
	}
	model.report(object)
	model.InstalledClusters = clustersOf(addOns)
	for i := range addOns {
		model.Clusters = append(model.Clusters, observedAddOn(&addOns[i]))
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}
