package replicaset

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

var _ datasource.DataSourceWithConfigure = (*replicaSetDataSource)(nil)

type replicaSetDataSource struct{ crud.DataSource }

type replicaSetDataModel struct {
	Namespace   types.String `tfsdk:"namespace"`
	Name        types.String `tfsdk:"name"`
	Labels      types.Map    `tfsdk:"labels"`
	Annotations types.Map    `tfsdk:"annotations"`
	Manifests   types.List   `tfsdk:"manifests"`
	manifestwork.Options
	Placements     []placementRefModel   `tfsdk:"placements"`
	DeletionPolicy types.String          `tfsdk:"cascade_deletion_policy"`
	Works          []replicaSetWorkModel `tfsdk:"works"`
	replicaSetStatusModel
}

// replicaSetWorkModel is one work of a replica set.
type replicaSetWorkModel struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Name           types.String `tfsdk:"name"`
	Placement      types.String `tfsdk:"placement"`
	Applied        types.String `tfsdk:"applied"`
	Available      types.String `tfsdk:"available"`
	Progressing    types.String `tfsdk:"progressing"`
	Degraded       types.String `tfsdk:"degraded"`
	Problem        types.String `tfsdk:"problem"`
}

// NewDataSource is the data source muster_manifest_work_replica_set.
func NewDataSource() datasource.DataSource { return &replicaSetDataSource{} }

func (d *replicaSetDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_manifest_work_replica_set"
}

func (d *replicaSetDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := attribute.ObservedAttributes(replicaSetAttributes())
	for name, attribute := range attribute.ObservedAttributes(replicaSetStatusAttributes()) {
		attributes[name] = attribute
	}
	attributes["namespace"] = schema.StringAttribute{
		MarkdownDescription: "Namespace of the replica set.",
		Required:            true,
		Validators:          []validator.String{attribute.ValidName("namespace")},
	}
	attributes["name"] = schema.StringAttribute{
		MarkdownDescription: "Name of the replica set.",
		Required:            true,
		Validators:          []validator.String{attribute.ValidObjectName("replica set name")},
	}
	attributes["manifests"] = schema.ListAttribute{
		MarkdownDescription: "The objects as YAML, except those that `muster_manifest_work_replica_set` wrote from " +
			"`manifests_wo`. Secrets among them are read in full, and are then in the state.",
		Computed: true, Sensitive: true, ElementType: types.StringType,
	}
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{MarkdownDescription: description, Computed: true}
	}
	attributes["works"] = schema.ListNestedAttribute{
		MarkdownDescription: "The works that there are, by cluster and name. The conditions are `True`, `False`, " +
			"`Unknown` (also while the agent has not reported on the work's present manifests) or empty, when the " +
			"agent does not report them.",
		Computed: true,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"managed_cluster": text("Cluster of the work."),
			"name":            text("Name of the work."),
			"placement":       text("Placement that selected the cluster."),
			"applied":         text("Whether the agent has written all objects."),
			"available":       text("Whether the objects all exist."),
			"progressing":     text("Whether the objects are still on their way."),
			"degraded":        text("Whether some object is in trouble."),
			"problem": text("What keeps the work from being done, in a sentence; empty when nothing does. " +
				"What can't be applied is told in the words of the cluster's API server."),
		}},
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A manifest work replica set, with how far its rollout is and the works that it has in " +
			"the clusters.\n\n" +
			"Terraform takes a data source with a sensitive attribute, as `manifests` is, for sensitive as a whole. " +
			"An output has to name other attributes, such as `works`.",
		Attributes: attributes,
	}
}

func (d *replicaSetDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
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
	doing := fmt.Sprintf("read manifest work replica set %q", namespace+"/"+name)
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	if err := client.Get(ctx, object, namespace, name); kube.IsNotFound(err, name) {
		resp.Diagnostics.AddAttributeError(path.Root("name"), fmt.Sprintf("There is no manifest work replica set %q in namespace %q", name, namespace),
			fmt.Sprintf("The hub %s does not know it. Those that it knows: kubectl get manifestworkreplicasets -A", client.Host()))
		return
	} else if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	works, err := Works(ctx, client, namespace, name)
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, fmt.Sprintf("list the works of manifest work replica set %q", namespace+"/"+name), err)
		return
	}
	model, err := observedReplicaSet(object, works)
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func observedReplicaSet(object *workv1alpha1.ManifestWorkReplicaSet, works []workv1.ManifestWork) (replicaSetDataModel, error) {
	template := object.Spec.ManifestWorkTemplate
	live := liveContent(object)
	hide := live.Masker(workload.None()).Text
	model := replicaSetDataModel{
		Namespace:             types.StringValue(object.Namespace),
		Name:                  types.StringValue(object.Name),
		Labels:                attribute.StringMapValue(attribute.OrEmpty(object.Labels)),
		Annotations:           attribute.StringMapValue(attribute.WithoutMark(object.Annotations)),
		Options:               manifestwork.OptionsOf(&template),
		Placements:            placementRefModels(object.Spec.PlacementRefs, nil),
		DeletionPolicy:        types.StringValue(string(object.Spec.CascadeDeletionPolicy)),
		Works:                 []replicaSetWorkModel{},
		replicaSetStatusModel: replicaSetStatus(object, nil, hide),
	}
	manifests, _, err := live.Read(nil)
	if err != nil {
		return model, err
	}
	if model.Manifests, err = workload.Texts(manifests); err != nil {
		return model, err
	}
	for i := range works {
		w := &works[i]
		model.Works = append(model.Works, replicaSetWorkModel{
			ManagedCluster: types.StringValue(w.Namespace),
			Name:           types.StringValue(w.Name),
			Placement:      types.StringValue(w.Labels[work.PlacementNameLabel]),
			Applied:        currentStatus(w, work.ConditionApplied),
			Available:      currentStatus(w, work.ConditionAvailable),
			Progressing:    currentStatus(w, work.ConditionProgressing),
			Degraded:       currentStatus(w, work.ConditionDegraded),
			Problem:        types.StringValue(hide(WorkTrouble(w))),
		})
	}
	return model, nil
}

// currentStatus is what a condition says of the work's present generation: Unknown
// when it tells of an earlier one, and nothing when it isn't reported.
func currentStatus(w *workv1.ManifestWork, condition string) types.String {
	c := meta.FindStatusCondition(w.Status.Conditions, condition)
	switch {
	case c == nil:
		return types.StringValue("")
	case c.ObservedGeneration != 0 && c.ObservedGeneration < w.Generation:
		return types.StringValue(string(metav1.ConditionUnknown))
	default:
		return types.StringValue(string(c.Status))
	}
}
