package manifestwork

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

var _ datasource.DataSourceWithConfigure = (*manifestWorkDataSource)(nil)

type manifestWorkDataSource struct{ crud.DataSource }

type observedWorkModel struct {
	ManagedCluster types.String               `tfsdk:"managed_cluster"`
	Name           types.String               `tfsdk:"name"`
	Labels         types.Map                  `tfsdk:"labels"`
	Manifests      types.List                 `tfsdk:"manifests"`
	Conditions     []attribute.ConditionModel `tfsdk:"conditions"`
	Feedback       types.List                 `tfsdk:"feedback"`
	Resources      []observedResourceModel    `tfsdk:"resources"`
}

// observedResourceModel is what the agent says of one object of a work.
type observedResourceModel struct {
	Group      types.String               `tfsdk:"group"`
	Version    types.String               `tfsdk:"version"`
	Kind       types.String               `tfsdk:"kind"`
	Resource   types.String               `tfsdk:"resource"`
	Namespace  types.String               `tfsdk:"namespace"`
	Name       types.String               `tfsdk:"name"`
	Conditions []attribute.ConditionModel `tfsdk:"conditions"`
}

// NewDataSource is the data source muster_manifest_work.
func NewDataSource() datasource.DataSource { return &manifestWorkDataSource{} }

func (d *manifestWorkDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_manifest_work"
}

func (d *manifestWorkDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{MarkdownDescription: description, Computed: true}
	}
	object := func(more string, attribute schema.Attribute) schema.NestedAttributeObject {
		return schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"group":     text("API group of the object; empty for the core group."),
			"version":   text("Version of its API."),
			"kind":      text("Its kind."),
			"namespace": text("Its namespace; empty if its kind has none."),
			"name":      text("Its name."),
			more:        attribute,
		}}
	}
	resources := object("conditions", attribute.ConditionsAttribute("Conditions of the object: `Applied`, `Available`, `StatusFeedbackSynced`, and those of rules."))
	resources.Attributes["resource"] = text("Plural name of its kind; empty while the cluster does not know the kind.")
	resp.Schema = schema.Schema{
		MarkdownDescription: "The present state of one manifest work, of any origin: its objects, and what the cluster's agent reports of them.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": schema.StringAttribute{
				MarkdownDescription: "Name of the managed cluster.",
				Required:            true,
				Validators:          []validator.String{attribute.ValidClusterName()},
			},
			"name": schema.StringAttribute{
				MarkdownDescription: "Name of the work.",
				Required:            true,
				Validators:          []validator.String{attribute.ValidObjectName("work name")},
			},
			"labels": schema.MapAttribute{MarkdownDescription: "Labels of the work itself.", Computed: true, ElementType: types.StringType},
			"manifests": schema.ListAttribute{
				MarkdownDescription: "The work's objects as YAML, except those that `muster_manifest_work` wrote from `manifests_wo`. Secrets among them are read in full, and are then in the state.",
				Computed:            true, Sensitive: true, ElementType: types.StringType,
			},
			"conditions": attribute.ConditionsAttribute("Conditions of the work."),
			"feedback": schema.ListNestedAttribute{
				MarkdownDescription: "Reported values of the live objects. Objects without reported values are not listed.",
				Computed:            true,
				NestedObject: object("values", schema.MapAttribute{
					MarkdownDescription: "The values as text, by the names that the feedback rules give them.", Computed: true, ElementType: types.StringType,
				}),
			},
			"resources": schema.ListNestedAttribute{
				MarkdownDescription: "What the agent reports of each object, in the order of the manifests.",
				Computed:            true,
				NestedObject:        resources,
			},
		},
	}
}

func (d *manifestWorkDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if d.Deferred(req, resp) {
		return
	}
	var clusterName, name string
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("managed_cluster"), &clusterName)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("name"), &name)...)
	client := d.Hub.QueryClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	object := &workv1.ManifestWork{}
	doing := fmt.Sprintf("read manifest work %q", clusterName+"/"+name)
	if err := client.Get(ctx, object, clusterName, name); kube.IsNotFound(err, name) {
		resp.Diagnostics.AddAttributeError(path.Root("name"), fmt.Sprintf("There is no manifest work %q", clusterName+"/"+name),
			fmt.Sprintf("The hub %s has none of this name for the cluster %q. Those that it has: kubectl get manifestworks -n %s", client.Host(), clusterName, clusterName))
		return
	} else if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	model, err := observedWork(object)
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func observedWork(object *workv1.ManifestWork) (observedWorkModel, error) {
	labels := object.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	m := observedWorkModel{
		ManagedCluster: types.StringValue(object.Namespace),
		Name:           types.StringValue(object.Name),
		Labels:         attribute.StringMapValue(labels),
		Conditions:     attribute.ConditionModels(object.Status.Conditions),
		Feedback:       feedbackValue(object),
		Resources:      []observedResourceModel{},
	}
	for _, x := range object.Status.ResourceStatus.Manifests {
		m.Resources = append(m.Resources, observedResourceModel{
			Group:      types.StringValue(x.ResourceMeta.Group),
			Version:    types.StringValue(x.ResourceMeta.Version),
			Kind:       types.StringValue(x.ResourceMeta.Kind),
			Resource:   types.StringValue(x.ResourceMeta.Resource),
			Namespace:  types.StringValue(x.ResourceMeta.Namespace),
			Name:       types.StringValue(x.ResourceMeta.Name),
			Conditions: attribute.ConditionModels(x.Conditions),
		})
	}
	open, _, err := liveContent(object).Read(nil)
	if err != nil {
		return m, err
	}
	m.Manifests, err = workload.Texts(open)
	return m, err
}
