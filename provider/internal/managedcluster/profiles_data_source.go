package managedcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster"
	multiclusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
)

var _ datasource.DataSourceWithConfigure = (*clusterProfilesDataSource)(nil)

type clusterProfilesDataSource struct{ crud.DataSource }

type clusterProfilesModel struct {
	Namespace  types.String          `tfsdk:"namespace"`
	Selector   types.String          `tfsdk:"label_selector"`
	ClusterSet types.String          `tfsdk:"cluster_set"`
	Names      []types.String        `tfsdk:"names"`
	Profiles   []clusterProfileModel `tfsdk:"profiles"`
}

// clusterProfileModel is one ClusterProfile.
type clusterProfileModel struct {
	Namespace         types.String               `tfsdk:"namespace"`
	Name              types.String               `tfsdk:"name"`
	DisplayName       types.String               `tfsdk:"display_name"`
	ClusterManager    types.String               `tfsdk:"cluster_manager"`
	ManagedCluster    types.String               `tfsdk:"managed_cluster"`
	ClusterSet        types.String               `tfsdk:"cluster_set"`
	Labels            types.Map                  `tfsdk:"labels"`
	KubernetesVersion types.String               `tfsdk:"kubernetes_version"`
	Properties        types.Map                  `tfsdk:"properties"`
	Healthy           types.Bool                 `tfsdk:"healthy"`
	Joined            types.Bool                 `tfsdk:"joined"`
	Conditions        []attribute.ConditionModel `tfsdk:"conditions"`
}

// NewProfilesDataSource is the data source muster_cluster_profiles.
func NewProfilesDataSource() datasource.DataSource { return &clusterProfilesDataSource{} }

func (d *clusterProfilesDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cluster_profiles"
}

func (d *clusterProfilesDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{MarkdownDescription: description, Computed: true}
	}
	texts := func(description string) schema.MapAttribute {
		return schema.MapAttribute{MarkdownDescription: description, Computed: true, ElementType: types.StringType}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "The ClusterProfiles (`multicluster.x-k8s.io`) of the hub: the clusters of each set that is bound in a namespace, in the form that tools read without knowing the cluster manager.\n\n" +
			"The hub keeps them while its feature gate `ClusterProfile` is on: `muster hub --feature-gates ClusterProfile=true`.",
		Attributes: map[string]schema.Attribute{
			"namespace": schema.StringAttribute{
				MarkdownDescription: "Only the profiles in this namespace. If omitted, all of the hub.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidName("namespace")},
			},
			"label_selector": schema.StringAttribute{
				MarkdownDescription: "Only the profiles that this label selector picks, in the notation of kubectl.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidSelector()},
			},
			"cluster_set": schema.StringAttribute{
				MarkdownDescription: "Only the profiles of clusters that are put in this set by their label.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidName("cluster set name")},
			},
			"names": schema.ListAttribute{
				MarkdownDescription: "Names of the profiles' clusters, each once, in alphabetical order.",
				Computed:            true,
				ElementType:         types.StringType,
			},
			"profiles": schema.ListNestedAttribute{
				MarkdownDescription: "The profiles, by namespace and name.",
				Computed:            true,
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"namespace":          text("Namespace of the profile."),
					"name":               text("Name of the profile."),
					"display_name":       text("Display name of the cluster."),
					"cluster_manager":    text("Who keeps the profile; `" + multicluster.ClusterManagerName + "` is the hub."),
					"managed_cluster":    text("Name of the managed cluster; null when another cluster manager keeps the profile."),
					"cluster_set":        text("Cluster set that the cluster is put in by its label."),
					"labels":             texts("Labels of the profile."),
					"kubernetes_version": text("Version of Kubernetes in the cluster."),
					"properties":         texts("Facts about the cluster, from its claims."),
					"healthy":            schema.BoolAttribute{MarkdownDescription: "Whether the cluster's API server is known to answer.", Computed: true},
					"joined":             schema.BoolAttribute{MarkdownDescription: "Whether the cluster has joined the hub.", Computed: true},
					"conditions":         attribute.ConditionsAttribute("All conditions."),
				}},
			},
		},
	}
}

func (d *clusterProfilesDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if d.Deferred(req, resp) {
		return
	}
	var model clusterProfilesModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	client := d.Hub.QueryClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	selector := model.Selector.ValueString()
	if set := model.ClusterSet.ValueString(); set != "" {
		selector = crud.SelectorText(selector, multicluster.ClusterSetLabel+"="+set)
	}
	list := &multiclusterv1alpha1.ClusterProfileList{}
	err := client.List(ctx, list, kube.ListOptions{Namespace: model.Namespace.ValueString(), LabelSelector: selector})
	if kube.IsKindNotServed(err) {
		resp.Diagnostics.AddError("The hub keeps no ClusterProfiles",
			fmt.Sprintf("The hub %s does not serve the kind ClusterProfile (%s). A muster hub does when its feature gate is on: start it with --feature-gates ClusterProfile=true. "+
				"An upstream hub has the gate of the same name in its ClusterManager.", client.Host(), multiclusterv1alpha1.GroupVersion))
		return
	}
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, "list cluster profiles", err)
		return
	}
	model.Names, model.Profiles = []types.String{}, []clusterProfileModel{}
	slices.SortFunc(list.Items, func(a, b multiclusterv1alpha1.ClusterProfile) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	var names []string
	for i := range list.Items {
		model.Profiles = append(model.Profiles, clusterProfile(&list.Items[i]))
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		model.Names = append(model.Names, types.StringValue(name))
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func clusterProfile(p *multiclusterv1alpha1.ClusterProfile) clusterProfileModel {
	properties := map[string]string{}
	for _, x := range p.Status.Properties {
		properties[x.Name] = x.Value
	}
	labels := p.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	return clusterProfileModel{
		Namespace:         types.StringValue(p.Namespace),
		Name:              types.StringValue(p.Name),
		DisplayName:       attribute.OptionalString(p.Spec.DisplayName),
		ClusterManager:    types.StringValue(p.Spec.ClusterManager.Name),
		ManagedCluster:    attribute.OptionalString(p.Labels[cluster.NameLabel]),
		ClusterSet:        attribute.OptionalString(p.Labels[multicluster.ClusterSetLabel]),
		Labels:            attribute.StringMapValue(labels),
		KubernetesVersion: attribute.OptionalString(p.Status.Version.Kubernetes),
		Properties:        attribute.StringMapValue(properties),
		Healthy:           types.BoolValue(meta.IsStatusConditionTrue(p.Status.Conditions, multicluster.ConditionControlPlaneHealthy)),
		Joined:            types.BoolValue(meta.IsStatusConditionTrue(p.Status.Conditions, multicluster.ConditionJoined)),
		Conditions:        attribute.ConditionModels(p.Status.Conditions),
	}
}
