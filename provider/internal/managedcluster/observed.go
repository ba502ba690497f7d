package managedcluster

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// observedClusterModel is what a data source tells about a cluster.
type observedClusterModel struct {
	Name              types.String               `tfsdk:"name"`
	Labels            types.Map                  `tfsdk:"labels"`
	ClusterSet        types.String               `tfsdk:"cluster_set"`
	Accepted          types.Bool                 `tfsdk:"accepted"`
	Joined            types.Bool                 `tfsdk:"joined"`
	Available         types.String               `tfsdk:"available"`
	KubernetesVersion types.String               `tfsdk:"kubernetes_version"`
	Claims            types.Map                  `tfsdk:"claims"`
	Capacity          types.Map                  `tfsdk:"capacity"`
	Allocatable       types.Map                  `tfsdk:"allocatable"`
	Taints            []taintModel               `tfsdk:"taints"`
	ManagedNamespaces []namespaceModel           `tfsdk:"managed_namespaces"`
	Conditions        []attribute.ConditionModel `tfsdk:"conditions"`
}

// namespaceModel is a namespace that a cluster set wants in its clusters.
type namespaceModel struct {
	Name       types.String `tfsdk:"name"`
	ClusterSet types.String `tfsdk:"cluster_set"`
	Available  types.Bool   `tfsdk:"available"`
	Message    types.String `tfsdk:"message"`
}

func namespaceModels(namespaces []clusterv1.ClusterSetManagedNamespaceConfig) []namespaceModel {
	models := []namespaceModel{}
	for _, n := range namespaces {
		m := namespaceModel{Name: types.StringValue(n.Name), ClusterSet: types.StringValue(n.ClusterSet), Available: types.BoolValue(false), Message: types.StringNull()}
		if c := meta.FindStatusCondition(n.Conditions, cluster.ConditionNamespaceAvailable); c != nil {
			m.Available, m.Message = types.BoolValue(c.Status == metav1.ConditionTrue), attribute.OptionalString(c.Message)
		}
		models = append(models, m)
	}
	return models
}

func observedClusterAttributes() map[string]schema.Attribute {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{MarkdownDescription: description, Computed: true}
	}
	texts := func(description string) schema.MapAttribute {
		return schema.MapAttribute{MarkdownDescription: description, Computed: true, ElementType: types.StringType}
	}
	return map[string]schema.Attribute{
		"name":               text("Name of the cluster."),
		"labels":             texts("Labels."),
		"cluster_set":        text("Cluster set that the cluster is put in by its label."),
		"accepted":           schema.BoolAttribute{MarkdownDescription: "Whether the hub accepts the cluster.", Computed: true},
		"joined":             schema.BoolAttribute{MarkdownDescription: "Whether the agent has joined.", Computed: true},
		"available":          text("`True` while the cluster's API server answers, `False` when it does not, `Unknown` when the agent is silent."),
		"kubernetes_version": text("Version of Kubernetes in the cluster."),
		"claims":             texts("What the cluster claims about itself."),
		"capacity":           texts("Resources of all nodes."),
		"allocatable":        texts("Resources that pods may use on schedulable nodes."),
		"taints": schema.SetNestedAttribute{
			MarkdownDescription: "Taints, including those of the hub.",
			Computed:            true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"key":    text("Key."),
				"value":  text("Value."),
				"effect": text("Effect."),
			}},
		},
		"managed_namespaces": schema.ListNestedAttribute{
			MarkdownDescription: "Namespaces that the cluster's sets want in it (`managed_namespaces` of `muster_managed_cluster_set`), by set and name.",
			Computed:            true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"name":        text("Name of the namespace."),
				"cluster_set": text("Cluster set that wants it."),
				"available":   schema.BoolAttribute{MarkdownDescription: "Whether the agent has created it.", Computed: true},
				"message":     text("The agent's message about it; null until there is one."),
			}},
		},
		"conditions": attribute.ConditionsAttribute("All conditions."),
	}
}

func observedCluster(object *clusterv1.ManagedCluster) observedClusterModel {
	claims, capacity, allocatable := map[string]string{}, map[string]string{}, map[string]string{}
	for _, claim := range object.Status.ClusterClaims {
		claims[claim.Name] = claim.Value
	}
	for name, quantity := range object.Status.Capacity {
		capacity[string(name)] = quantity.String()
	}
	for name, quantity := range object.Status.Allocatable {
		allocatable[string(name)] = quantity.String()
	}
	labels := object.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	available := string(metav1.ConditionUnknown)
	if c := meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionAvailable); c != nil {
		available = string(c.Status)
	}
	taints := []taintModel{}
	for _, t := range object.Spec.Taints {
		taints = append(taints, taintModel{Key: types.StringValue(t.Key), Value: attribute.OptionalString(t.Value), Effect: types.StringValue(string(t.Effect))})
	}
	return observedClusterModel{
		Name:              types.StringValue(object.Name),
		Labels:            attribute.StringMapValue(labels),
		ClusterSet:        attribute.OptionalString(object.Labels[cluster.ClusterSetLabel]),
		Accepted:          types.BoolValue(object.Spec.AcceptsClient()),
		Joined:            types.BoolValue(meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionJoined)),
		Available:         types.StringValue(available),
		KubernetesVersion: attribute.OptionalString(object.Status.Version.Kubernetes),
		Claims:            attribute.StringMapValue(claims),
		Capacity:          attribute.StringMapValue(capacity),
		Allocatable:       attribute.StringMapValue(allocatable),
		Taints:            taints,
		ManagedNamespaces: namespaceModels(object.Status.ManagedNamespaces),
		Conditions:        attribute.ConditionModels(object.Status.Conditions),
	}
}
