package hub_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// An import does nothing that its author may not do, and says nothing that can't be.
func TestImportsDoWhatTheirAuthorsMayDo(t *testing.T) {
	imports := rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: []string{"clusterimports"}, Verbs: []string{"*"}}
	lists := rbacv1.PolicyRule{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"list"}}
	secret := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: []string{"paris"}}
	clusters := rbacv1.PolicyRule{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"create"}}
	join := rbacv1.PolicyRule{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclustersets/join"}, Verbs: []string{"create"}, ResourceNames: []string{"default", "eu"}}
	accept := rbacv1.PolicyRule{APIGroups: []string{cluster.RegisterGroupName}, Resources: []string{"managedclusters/accept"}, Verbs: []string{"update"}}
	grant(t, "import-1", imports, lists)
	grant(t, "import-2", imports, lists, secret)
	grant(t, "import-3", imports, lists, secret, clusters)
	grant(t, "import-4", imports, lists, secret, clusters, join)
	grant(t, "import-5", imports, lists, secret, clusters, join, accept)
	for _, x := range []struct {
		who, what string
		change    func(*v1alpha1.ClusterImport)
		want      string
	}{
		{"1", "another's Secret", nil, `cannot use the Secret "paris"`},
		{"2", "no cluster", nil, "cannot create the ManagedCluster"},
		{"3", "no set", nil, `"default"`},
		{"4", "everything but acceptance", nil, ""},
		{"4", "a set", func(i *v1alpha1.ClusterImport) { i.Spec.ClusterSet = "eu" }, ""},
		{"4", "another set", func(i *v1alpha1.ClusterImport) { i.Spec.ClusterSet = "us" }, `"us"`},
		{"4", "acceptance", func(i *v1alpha1.ClusterImport) { i.Spec.Accept = true }, cluster.RefusedAcceptance},
		{"5", "acceptance", func(i *v1alpha1.ClusterImport) { i.Spec.Accept = true }, ""},
		{"5", "another Secret", func(i *v1alpha1.ClusterImport) { i.Spec.KubeconfigSecret = "rome" }, `cannot use the Secret "rome"`},
		{"5", "a Secret elsewhere", func(i *v1alpha1.ClusterImport) { i.Spec.KubeconfigSecret = "kube-system/paris" }, "spec.kubeconfigSecret"},
		{"5", "a reserved name", func(i *v1alpha1.ClusterImport) { i.Name = muster.ImportNamespace }, "no managed cluster can be called"},
		{"5", "a set by label", func(i *v1alpha1.ClusterImport) { i.Spec.Labels = map[string]string{cluster.ClusterSetLabel: "us"} }, "use spec.clusterSet"},
		{"5", "a protected argument", func(i *v1alpha1.ClusterImport) { i.Spec.Agent.Args = []string{"--bootstrap-kubeconfig=/x"} }, "spec.agent.args[0]"},
		{"5", "a bad option", func(i *v1alpha1.ClusterImport) { i.Spec.Agent.Tolerations = []corev1.Toleration{{Value: "x"}} }, "spec.agent.tolerations[0].operator"},
		{"5", "a hub in clear", func(i *v1alpha1.ClusterImport) { i.Spec.Endpoint.Server = "http://hub.example.com" }, "spec.endpoint.server"},
		{"5", "no bundle", func(i *v1alpha1.ClusterImport) { i.Spec.Endpoint.CABundle = []byte("x") }, "spec.endpoint.caBundle"},
	} {
		imp := &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: "paris"}, Spec: v1alpha1.ClusterImportSpec{KubeconfigSecret: "paris"}}
		if x.change != nil {
			x.change(imp)
		}
		err := clientFor(t, impersonate("import-"+x.who)).Create(context.Background(), imp, client.DryRunAll)
		mustRefuse(t, "import-"+x.who+" asks for "+x.what, err, x.want)
	}
	// Who may only change imports can't have the hub use what he has no right to.
	admins := clientFor(t, admin)
	imp := &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: "changed"}, Spec: v1alpha1.ClusterImportSpec{KubeconfigSecret: "paris"}}
	if err := admins.Create(context.Background(), imp); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admins.Delete(context.Background(), imp) })
	for patch, want := range map[string]string{
		`{"spec":{"endpoint":{"server":"https://evil.example.com"}}}`: "cannot use the Secret",
		`{"metadata":{"labels":{"a":"b"}}}`:                           "",
	} {
		err := clientFor(t, impersonate("import-1")).Patch(context.Background(), imp.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll)
		mustRefuse(t, patch, err, want)
	}
	if err := admins.Patch(context.Background(), imp.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"agent":{"namespace":"other"}}}`)), client.DryRunAll); err == nil {
		t.Error("the agent's namespace was changed")
	}
}
