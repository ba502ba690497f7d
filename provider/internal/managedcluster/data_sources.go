package managedcluster

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
)

// NewListDataSource is the data source muster_managed_clusters.
func NewListDataSource() datasource.DataSource {
	return crud.Listing[managedCluster]{
		Type: "managed_clusters", Plural: "managed clusters", Objects: &clusterv1.ManagedClusterList{},
		Description: "The managed clusters of the hub, all or those that a selector picks, with their present state.",
		Filters: []crud.Filter[managedCluster]{
			crud.Labelled[managedCluster]("Label selector in the notation of kubectl, such as " +
				"`env=prod,region in (eu,us)`. If omitted, all clusters."),
			crud.InSet[managedCluster](cluster.ClusterSetLabel,
				"Only the clusters that are put in this set by their label."),
		},
		Names:    "Names of the clusters, in alphabetical order.",
		Elements: "clusters", About: "The clusters, in the order of their names.",
		Table: observedTable(),
	}.NewDataSource()
}

// observedTable are the attributes of a cluster in the data sources.
func observedTable() attribute.Table[managedCluster] {
	return attribute.Table[managedCluster]{
		attribute.ReportedText("name", "Name of the cluster.", managedCluster.GetName),
		attribute.ReportedTextMap("labels", "Labels.", managedCluster.GetLabels),
		attribute.ReportedTextOrNull("cluster_set", "Cluster set that the cluster is put in by its label.",
			func(c managedCluster) string { return c.Labels[cluster.ClusterSetLabel] }),
		attribute.ReportedFlag("accepted", "Whether the hub accepts the cluster.",
			func(c managedCluster) bool { return c.Spec.AcceptsClient() }),
		attribute.ReportedFlag("joined", "Whether the agent has joined.", func(c managedCluster) bool {
			return meta.IsStatusConditionTrue(c.Status.Conditions, cluster.ConditionJoined)
		}),
		attribute.ReportedText("available", "`True` while the cluster's API server answers, `False` when it does not, "+
			"`Unknown` when the agent is silent.", availability),
		attribute.ReportedTextOrNull("kubernetes_version", "Version of Kubernetes in the cluster.",
			func(c managedCluster) string { return c.Status.Version.Kubernetes }),
		attribute.ReportedTextMap("claims", "What the cluster claims about itself.",
			func(c managedCluster) map[string]string {
				claims := map[string]string{}
				for _, claim := range c.Status.ClusterClaims {
					claims[claim.Name] = claim.Value
				}
				return claims
			}),
		resources("capacity", "Resources of all nodes.",
			func(c managedCluster) clusterv1.ResourceList { return c.Status.Capacity }),
		resources("allocatable", "Resources that pods may use on schedulable nodes.",
			func(c managedCluster) clusterv1.ResourceList { return c.Status.Allocatable }),
		attribute.ReportedObjectSet("taints", "Taints, including those of the hub.",
			func(c managedCluster) []clusterv1.Taint { return c.Spec.Taints },
			attribute.ReportedText("key", "Key.", func(t clusterv1.Taint) string { return t.Key }),
			attribute.ReportedTextOrNull("value", "Value.", func(t clusterv1.Taint) string { return t.Value }),
			attribute.ReportedText("effect", "Effect.",
				func(t clusterv1.Taint) clusterv1.TaintEffect { return t.Effect })),
		attribute.ReportedObjects("managed_namespaces",
			"Namespaces that the cluster's sets want in it (`managed_namespaces` of `muster_managed_cluster_set`), by "+
				"set and name.",
			func(c managedCluster) []namespaceConfig { return c.Status.ManagedNamespaces },
			attribute.ReportedText("name", "Name of the namespace.", func(n namespaceConfig) string { return n.Name }),
			attribute.ReportedText("cluster_set", "Cluster set that wants it.",
				func(n namespaceConfig) string { return n.ClusterSet }),
			attribute.ReportedFlag("available", "Whether the agent has created it.", func(n namespaceConfig) bool {
				return meta.IsStatusConditionTrue(n.Conditions, cluster.ConditionNamespaceAvailable)
			}),
			attribute.ReportedTextOrNull("message", "The agent's message about it; null until there is one.",
				func(n namespaceConfig) string {
					if c := meta.FindStatusCondition(n.Conditions, cluster.ConditionNamespaceAvailable); c != nil {
						return c.Message
					}
					return ""
				})),
		attribute.ReportedConditions("All conditions.",
			func(c managedCluster) []metav1.Condition { return c.Status.Conditions }),
	}
}

type namespaceConfig = clusterv1.ClusterSetManagedNamespaceConfig

func availability(c managedCluster) metav1.ConditionStatus {
	if c := meta.FindStatusCondition(c.Status.Conditions, cluster.ConditionAvailable); c != nil {
		return c.Status
	}
	return metav1.ConditionUnknown
}

func resources(
	name, description string, read func(managedCluster) clusterv1.ResourceList,
) attribute.Field[managedCluster] {
	return attribute.ReportedTextMap(name, description, func(c managedCluster) map[string]string {
		amounts := map[string]string{}
		for resource, quantity := range read(c) {
			amounts[string(resource)] = quantity.String()
		}
		return amounts
	})
}

type profile = *v1alpha1.ClusterProfile

// NewProfilesDataSource is the data source muster_cluster_profiles.
func NewProfilesDataSource() datasource.DataSource {
	return crud.Listing[profile]{
		Type: "cluster_profiles", Plural: "cluster profiles", Objects: &v1alpha1.ClusterProfileList{},
		Description: "The ClusterProfiles (`multicluster.x-k8s.io`) of the hub: the clusters of each set that is " +
			"bound in a namespace, in the form that tools read without knowing the cluster manager.\n\n" +
			"The hub keeps them while its feature gate `ClusterProfile` is on: `muster hub --feature-gates " +
			"ClusterProfile=true`.",
		Filters: []crud.Filter[profile]{
			crud.InNamespace[profile]("namespace", "namespace",
				"Only the profiles in this namespace. If omitted, all of the hub."),
			crud.Labelled[profile]("Only the profiles that this label selector picks, in the notation of kubectl."),
			crud.InSet[profile](multicluster.ClusterSetLabel,
				"Only the profiles of clusters that are put in this set by their label."),
		},
		Names:    "Names of the profiles' clusters, each once, in alphabetical order.",
		Elements: "profiles", About: "The profiles, by namespace and name.",
		Table: profileTable(),
		Explain: func(host string, err error) (summary, detail string) {
			if !kube.IsKindNotServed(err) {
				return "", ""
			}
			return "The hub keeps no ClusterProfiles", fmt.Sprintf("The hub %s does not serve the kind ClusterProfile "+
				"(%s). A muster hub does when its feature gate is on: start it with --feature-gates "+
				"ClusterProfile=true. An upstream hub has the gate of the same name in its ClusterManager.",
				host, v1alpha1.GroupVersion)
		},
	}.NewDataSource()
}

// profileTable are the attributes of a profile.
func profileTable() attribute.Table[profile] {
	return attribute.Table[profile]{
		attribute.ReportedText("namespace", "Namespace of the profile.", profile.GetNamespace),
		attribute.ReportedText("name", "Name of the profile.", profile.GetName),
		attribute.ReportedTextOrNull("display_name", "Display name of the cluster.",
			func(p profile) string { return p.Spec.DisplayName }),
		attribute.ReportedText("cluster_manager",
			"Who keeps the profile; `"+multicluster.ClusterManagerName+"` is the hub.",
			func(p profile) string { return p.Spec.ClusterManager.Name }),
		attribute.ReportedTextOrNull("managed_cluster",
			"Name of the managed cluster; null when another cluster manager keeps the profile.",
			func(p profile) string { return p.Labels[cluster.NameLabel] }),
		attribute.ReportedTextOrNull("cluster_set", "Cluster set that the cluster is put in by its label.",
			func(p profile) string { return p.Labels[multicluster.ClusterSetLabel] }),
		attribute.ReportedTextMap("labels", "Labels of the profile.", profile.GetLabels),
		attribute.ReportedTextOrNull("kubernetes_version", "Version of Kubernetes in the cluster.",
			func(p profile) string { return p.Status.Version.Kubernetes }),
		attribute.ReportedTextMap("properties", "Facts about the cluster, from its claims.",
			func(p profile) map[string]string {
				properties := map[string]string{}
				for _, x := range p.Status.Properties {
					properties[x.Name] = x.Value
				}
				return properties
			}),
		attribute.ReportedFlag("healthy", "Whether the cluster's API server is known to answer.",
			func(p profile) bool {
				return meta.IsStatusConditionTrue(p.Status.Conditions, multicluster.ConditionControlPlaneHealthy)
			}),
		attribute.ReportedFlag("joined", "Whether the cluster has joined the hub.",
			func(p profile) bool {
				return meta.IsStatusConditionTrue(p.Status.Conditions, multicluster.ConditionJoined)
			}),
		attribute.ReportedConditions("All conditions.",
			func(p profile) []metav1.Condition { return p.Status.Conditions }),
	}
}
