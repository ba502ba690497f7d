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
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
)

type profile = *v1alpha1.ClusterProfile

// NewProfilesDataSource is the data source muster_cluster_profiles.
func NewProfilesDataSource() datasource.DataSource {
	return crud.Listing[profile]{
		Type: "cluster_profiles", Plural: "cluster profiles", Objects: &v1alpha1.ClusterProfileList{},
		Description: "The ClusterProfiles (`multicluster.x-k8s.io`) of the hub: the clusters of each set that is bound " +
			"in a namespace, in the form that tools read without knowing the cluster manager.\n\n" +
			"The hub keeps them while its feature gate `ClusterProfile` is on: " +
			"`muster hub --feature-gates ClusterProfile=true`.",
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
		attribute.ReportedConditions("All conditions.", func(p profile) []metav1.Condition { return p.Status.Conditions }),
	}
}
