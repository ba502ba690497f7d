package clusterimport

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

var _ datasource.DataSourceWithConfigure = (*importDataSource)(nil)

type importDataSource struct{ crud.DataSource }

type importDataModel struct {
	specModel
	statusModel
	Conditions []attribute.ConditionModel `tfsdk:"conditions"`
}

// NewDataSource is the data source muster_cluster_import.
func NewDataSource() datasource.DataSource { return &importDataSource{} }

func (d *importDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cluster_import"
}

func (d *importDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := attribute.ObservedAttributes(specAttributes())
	maps.Copy(attributes, attribute.ObservedAttributes(statusAttributes()))
	attributes["name"] = schema.StringAttribute{
		MarkdownDescription: "Name of the import, and of its managed cluster.", Required: true,
		Validators: []validator.String{attribute.ValidClusterName()},
	}
	attributes["conditions"] = attribute.ConditionsAttribute("Conditions of the import: `KubeconfigUsable`, `AgentInstalled`, `Joined` and `Drifted`.")
	resp.Schema = schema.Schema{
		MarkdownDescription: "A cluster in which the hub installs the agent: how far it is, and what it waits for. The kubeconfig can't be read.",
		Attributes:          attributes,
	}
}

func (d *importDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if d.Deferred(req, resp) {
		return
	}
	var name string
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("name"), &name)...)
	client := d.Hub.QueryClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	object := &v1alpha1.ClusterImport{}
	if err := client.Get(ctx, object, "", name); kube.IsNotFound(err, name) {
		resp.Diagnostics.AddAttributeError(path.Root("name"), fmt.Sprintf("There is no cluster import %q", name),
			fmt.Sprintf("The hub %s does not know it. Those that it knows: kubectl get clusterimports", client.Host()))
		return
	} else if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, fmt.Sprintf("read cluster import %q", name), err)
		return
	}
	model := importDataModel{specModel: specOf(object), Conditions: attribute.ConditionModels(object.Status.Conditions)}
	model.Labels, model.Annotations = namesOf(object, func(_ string, live map[string]string) types.Map {
		return attribute.StringMapValue(attribute.WithoutMark(live))
	})
	model.report(object)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}
