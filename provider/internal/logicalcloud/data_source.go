package logicalcloud

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

var _ datasource.DataSourceWithConfigure = (*cloudDataSource)(nil)

type cloudDataSource struct{ crud.DataSource }

type cloudDataModel struct {
	specModel
	statusModel
	Ready      types.Bool                 `tfsdk:"ready"`
	Conditions []attribute.ConditionModel `tfsdk:"conditions"`
}

// NewDataSource is the data source muster_logical_cloud.
func NewDataSource() datasource.DataSource { return &cloudDataSource{} }

func (d *cloudDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_logical_cloud"
}

func (d *cloudDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := observedAttributes()
	attributes["namespace"] = schema.StringAttribute{
		MarkdownDescription: "Namespace of the cloud on the hub.", Required: true,
		Validators: []validator.String{attribute.ValidName("namespace")},
	}
	attributes["name"] = schema.StringAttribute{
		MarkdownDescription: "Name of the cloud.", Required: true,
		Validators: []validator.String{attribute.ValidObjectName("logical cloud name")},
	}
	attributes["ready"] = schema.BoolAttribute{
		MarkdownDescription: "Whether every selected cluster has all of the cloud's objects, as they are now: the condition `Ready` is true of the present generation.",
		Computed:            true,
	}
	attributes["conditions"] = attribute.ConditionsAttribute("Conditions of the cloud: `Selected`, `Applied`, `Ready`, and while it is being deleted `Deleting`.")
	resp.Schema = schema.Schema{
		MarkdownDescription: "A logical cloud, with how many clusters have it and what is wrong with the others.",
		Attributes:          attributes,
	}
}

func (d *cloudDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if d.Deferred(req, resp) {
		return
	}
	var namespace, name string
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("namespace"), &namespace)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("name"), &name)...)
	client := d.Hub.QueryClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	object := &v1alpha1.LogicalCloud{}
	if err := client.Get(ctx, object, namespace, name); kube.IsNotFound(err, name) {
		resp.Diagnostics.AddAttributeError(path.Root("name"), fmt.Sprintf("There is no logical cloud %q in namespace %q", name, namespace),
			fmt.Sprintf("The hub %s does not know it. Those that it knows: kubectl get logicalclouds -A", client.Host()))
		return
	} else if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, fmt.Sprintf("read logical cloud %q", namespace+"/"+name), err)
		return
	}
	model := cloudDataModel{
		specModel: importSpec(object, func(_ metav1.Object, _ string, live map[string]string) types.Map {
			return attribute.StringMapValue(attribute.WithoutMark(live))
		}),
		Ready:      types.BoolValue(len((&waitModel{Ready: types.BoolValue(true)}).lacks(object)) == 0),
		Conditions: attribute.ConditionModels(object.Status.Conditions),
	}
	model.report(object)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

// observedAttributes are those of the resource, only to be read.
func observedAttributes() map[string]schema.Attribute {
	attributes := attribute.ObservedAttributes(cloudAttributes())
	for name, attribute := range attribute.ObservedAttributes(statusAttributes()) {
		attributes[name] = attribute
	}
	return attributes
}
