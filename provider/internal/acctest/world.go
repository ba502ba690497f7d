package acctest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// World makes objects of every kind but access requests, which end by themselves,
// with kubectl, all named after a test. It has
// the clusters NAME-a, which has joined the set NAME, and NAME-b, which is not
// accepted.
func World(t *testing.T, name string) *Outsider {
	t.Helper()
	someone := Someone(t)
	someone.Namespace(name)
	accepted := true
	a := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: &accepted}}
	a.Name, a.Labels = name+"-a", map[string]string{cluster.ClusterSetLabel: name, "env": "test"}
	b := &clusterv1.ManagedCluster{}
	b.Name = name + "-b"
	set := &clusterv1beta2.ManagedClusterSet{}
	set.Name = name
	binding := &clusterv1beta2.ManagedClusterSetBinding{Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: name}}
	binding.Namespace, binding.Name = name, name
	placement := &clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{ClusterSets: []string{name}}}
	placement.Namespace, placement.Name = name, "where"
	token := &corev1.Secret{Type: corev1.SecretTypeBootstrapToken, Data: map[string][]byte{
		"token-id": []byte(name[:6]), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte(
			"true"),
		"auth-extra-groups": []byte(cluster.BootstrapGroup),
	}}
	token.Namespace, token.Name = metav1.NamespaceSystem, "bootstrap-token-"+name[:6]
	for _, object := range []kube.Object{a, b, set, binding, placement, token} {
		someone.Apply(object)
	}
	someone.Wait(&corev1.Namespace{}, "", a.Name, func() bool { return true })
	someone.Wait(&clusterv1beta2.ManagedClusterSet{}, "", cluster.DefaultSet, func() bool { return true })
	someone.Wait(&clusterv1beta2.ManagedClusterSet{}, "", cluster.GlobalSet, func() bool { return true })
	manifests := []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}`)}}}
	plain, made := &workv1.ManifestWork{}, &workv1.ManifestWork{}
	plain.Namespace, plain.Name, plain.Spec.Workload.Manifests = a.Name, "web", manifests
	made.Namespace, made.Name, made.Spec.Workload.Manifests = a.Name, "made", manifests
	made.Labels = map[string]string{work.ReplicaSetLabel: "some.set"}
	replicas := &workv1alpha1.ManifestWorkReplicaSet{}
	replicas.Namespace, replicas.Name = name, "everywhere"
	replicas.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "nowhere"}}
	replicas.Spec.ManifestWorkTemplate.Workload.Manifests = manifests
	score := &clusterv1alpha1.AddOnPlacementScore{}
	score.Namespace, score.Name = a.Name, "latency"
	role := &musterv1alpha1.AccessRole{Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"},
		Verbs: []string{"get"}}}}
	role.Name = name
	cloud := &musterv1alpha1.LogicalCloud{Spec: musterv1alpha1.LogicalCloudSpec{
		Placements: []musterv1alpha1.PlacementReference{{Name: "nowhere"}}, Namespace: musterv1alpha1.CloudNamespace{Name: name +
			"-cloud"},
		Grants: []musterv1alpha1.Grant{{Role: name, Users: []string{"jo"}}},
	}}
	cloud.Namespace, cloud.Name = name, "cloud"
	brought := &musterv1alpha1.ClusterImport{Spec: musterv1alpha1.ClusterImportSpec{KubeconfigSecret: name,
		Labels: map[string]string{"env": "test"}, Redeploy: 1}}
	brought.Name = name + "-c"
	for _, object := range append([]kube.Object{plain, made, replicas, score, role, cloud, brought},
		addOns(name, a.Name, manifests)...) {
		someone.Apply(object)
	}
	someone.Joined(a.Name)
	someone.Get(score, score.Namespace, score.Name)
	score.Status.Scores = []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "ms", Value: 12}}
	ctx, cancel := someone.Context()
	defer cancel()
	if err := someone.Client.UpdateSubresource(ctx, score, "status", OutsiderManager); err != nil {
		t.Fatal(err)
	}
	return someone
}

// addOns are one object of each kind of add-ons.
func addOns(name, cluster string, manifests []workv1.Manifest) []kube.Object {
	settings := &addonv1alpha1.AddOnDeploymentConfig{Spec: addonv1alpha1.AddOnDeploymentConfigSpec{
		CustomizedVariables: []addonv1alpha1.CustomizedVariable{{Name: "LEVEL", Value: "info"}},
	}}
	settings.Namespace, settings.Name = name, "settings"
	template := &addonv1alpha1.AddOnTemplate{Spec: addonv1alpha1.AddOnTemplateSpec{AddonName: name,
		AgentSpec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: manifests}}}}
	template.Name = name
	addOn := &addonv1alpha1.ClusterManagementAddOn{Spec: addonv1alpha1.ClusterManagementAddOnSpec{AddOnMeta: addonv1alpha1.AddOnMeta{DisplayName: name}}}
	addOn.Name = name
	inCluster := &addonv1alpha1.ManagedClusterAddOn{Spec: addonv1alpha1.ManagedClusterAddOnSpec{InstallNamespace: "agents"}}
	inCluster.Namespace, inCluster.Name = cluster, "by-hand"
	return []kube.Object{settings, template, addOn, inCluster}
}
