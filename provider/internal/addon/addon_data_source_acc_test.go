package addon_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// The data sources tell how an add-on is in each cluster, and find those that are in
// trouble.
func TestAccAddOnDataSources(t *testing.T) {
	someone := acctest.Someone(t)
	definition := &v1alpha1.ClusterManagementAddOn{}
	definition.Name, definition.Annotations = "observed", map[string]string{addon.LifecycleAnnotation: "self", "note": "x"}
	definition.Spec.AddOnMeta.DisplayName = "Observed"
	someone.Apply(definition)
	t.Cleanup(func() { someone.Remove(&v1alpha1.ClusterManagementAddOn{}, "", "observed") })
	for cluster, available := range map[string]metav1.ConditionStatus{"observed-a": "True", "observed-b": "False", "observed-c": ""} {
		someone.Namespace(cluster)
		x := &v1alpha1.ManagedClusterAddOn{}
		x.Namespace, x.Name, x.Labels = cluster, "observed", map[string]string{"env": "test"}
		someone.Apply(x)
		someone.Get(x, cluster, "observed")
		x.Status.Namespace = "agents"
		x.Status.ConfigReferences = []v1alpha1.ConfigReference{{
			ConfigGroupResource: v1alpha1.ConfigGroupResource{Resource: "configmaps"}, ConfigReferent: v1alpha1.ConfigReferent{Namespace: "n", Name: "c"},
			DesiredConfig: &v1alpha1.ConfigSpecHash{ConfigReferent: v1alpha1.ConfigReferent{Namespace: "n", Name: "c"}, SpecHash: "1234"},
		}}
		if available != "" {
			x.Status.Conditions = []metav1.Condition{{Type: addon.ConditionAvailable, Status: available, Reason: "Test", Message: "by the test", LastTransitionTime: metav1.Now()}}
		}
		ctx, cancel := someone.Context()
		defer cancel()
		if err := someone.Client.UpdateSubresource(ctx, x, "status", acctest.OutsiderManager); err != nil {
			t.Fatal(err)
		}
	}
	w := acctest.NewWorkspace(t)
	config := `
data "muster_addon" "x" {
  name = "observed"
}
data "muster_cluster_addons" "one" {
  managed_cluster = "observed-a"
}
data "muster_cluster_addons" "broken" {
  name      = "observed"
  available = "False"
}
data "muster_cluster_addons" "silent" {
  label_selector = "env=test"
  name           = "observed"
  available      = "Unknown"
}
output "x" {
  value = join(" ", concat(
    [data.muster_addon.x.display_name, data.muster_addon.x.managed_by, join(",", keys(data.muster_addon.x.annotations))],
    data.muster_addon.x.installed_clusters,
    [for c in data.muster_addon.x.clusters : "[${c.managed_cluster}:${c.install_namespace}:${c.problem}]"],
    [for c in data.muster_addon.x.clusters[0].configs : "${c.resource}/${c.namespace}/${c.name}/${c.spec_hash}/${c.applied}"],
    ["one:"], data.muster_cluster_addons.one.addons[*].name, ["broken:"], data.muster_cluster_addons.broken.addons[*].managed_cluster,
    ["silent:"], data.muster_cluster_addons.silent.addons[*].managed_cluster,
  ))
}
`
	said, ok := w.Apply(config)
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, said, `"Observed self note observed-a observed-b observed-c [observed-a:agents:] [observed-b:agents:Available is False (Test): by the test] `+
		`[observed-c:agents:nothing reports Available yet] configmaps/n/c/1234/false one: observed broken: observed-b silent: observed-c"`)
	acctest.Says(t, w.Plan(`data "muster_addon" "x" { name = "absent" }`), `There is no add-on "absent"`, "kubectl get clustermanagementaddons")
	acctest.Says(t, w.Plan(`data "muster_cluster_addons" "x" { available = "false" }`), `available is "false", but it takes one of True, False, Unknown`)
}
