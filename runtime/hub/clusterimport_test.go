package hub_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/install"
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
		{"5", "to join again", func(i *v1alpha1.ClusterImport) { i.Spec.Rejoin = 1 }, "cannot create Secrets in the namespace kube-system"},
		{"5", "a text as authority", func(i *v1alpha1.ClusterImport) { i.Spec.ClusterAuthority = "mine" }, "spec.clusterAuthority"},
		{"5", "an authority", func(i *v1alpha1.ClusterImport) { i.Spec.ClusterAuthority = "dns:api.example.com" }, ""},
		{"5", "no bundle", func(i *v1alpha1.ClusterImport) { i.Spec.Endpoint.CABundle = []byte("x") }, "spec.endpoint.caBundle"},
	} {
		imp := &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: "paris"}, Spec: v1alpha1.ClusterImportSpec{KubeconfigSecret: "paris"}}
		if x.change != nil {
			x.change(imp)
		}
		err := clientFor(t, impersonate("import-"+x.who)).Create(context.Background(), imp, client.DryRunAll)
		mustRefuse(t, "import-"+x.who+" asks for "+x.what, err, x.want)
	}
	// A name that the hub has already is not everybody's to let a cluster in under.
	update := rbacv1.PolicyRule{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"update"}, ResourceNames: []string{"import-pending", "import-accepted"}}
	grant(t, "import-6", imports, lists, secret, clusters, join, update)
	for name, accepted := range map[string]bool{"import-pending": false, "import-accepted": true} {
		mc := newCluster(name)
		mc.Spec.HubAcceptsClient = &accepted
		testkit.Must(t, clientFor(t, admin).Create(context.Background(), mc))
		t.Cleanup(func() { _ = clientFor(t, admin).Delete(context.Background(), mc) })
	}
	for _, x := range []struct{ who, name, want string }{
		{"5", "import-pending", `cannot update the ManagedCluster "import-pending"`},
		{"6", "import-pending", ""},
		{"6", "import-accepted", cluster.RefusedAcceptance},
	} {
		imp := &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: x.name}, Spec: v1alpha1.ClusterImportSpec{KubeconfigSecret: "paris"}}
		mustRefuse(t, "import-"+x.who+" imports as "+x.name, clientFor(t, impersonate("import-"+x.who)).Create(context.Background(), imp, client.DryRunAll), x.want)
	}
	// Who may only change imports can't have the hub use what he has no right to.
	admins := clientFor(t, admin)
	imp := &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: "changed"}, Spec: v1alpha1.ClusterImportSpec{KubeconfigSecret: "paris"}}
	if err := admins.Create(context.Background(), imp); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admins.Delete(context.Background(), imp) })
	// Nor does anybody make the cluster under whose name somebody else's import would let
	// its own in.
	grant(t, "import-7", lists, clusters, join)
	for who, want := range map[string]string{"7": `cannot update the ClusterImport "changed"`, "4": ""} {
		err := clientFor(t, impersonate("import-"+who)).Create(context.Background(), newCluster("changed"), client.DryRunAll)
		mustRefuse(t, "import-"+who+" makes the cluster of an import", err, want)
	}
	mustRefuse(t, "import-7 makes another cluster", clientFor(t, impersonate("import-7")).Create(context.Background(), newCluster("unchanged"), client.DryRunAll), "")
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

// importing are the rows of the matrix about imports and their kubeconfigs, for
// everybody in it. Only administrators and who has the roles reach them.
func importing(t testing.TB, p places, everybody map[string]identity) []request {
	ctx, c := context.Background(), clientFor(t, admin)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: muster.ImportNamespace, Name: "rights"}}
	imp := &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: "rights"}, Spec: v1alpha1.ClusterImportSpec{KubeconfigSecret: "none"}}
	for _, o := range []client.Object{secret, imp} {
		testkit.Must(t, c.Create(ctx, o))
		t.Cleanup(func() { _ = c.Delete(ctx, o) })
	}
	bindAll := func(user, role string) {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "test:" + user}, RoleRef: rbacv1.RoleRef{APIGroup: rolesGroup, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rolesGroup, Kind: rbacv1.UserKind, Name: user}},
		}
		testkit.Must(t, c.Create(ctx, binding))
		t.Cleanup(func() { _ = c.Delete(ctx, binding) })
		everybody[user] = known(t, impersonate(user))
	}
	bindAll("fleet viewer", "view") // Kubernetes' own, which contains the viewer's
	bindAll("import admin", install.ImportAdminRole)
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: muster.ImportNamespace, Name: "test"}, RoleRef: rbacv1.RoleRef{APIGroup: rolesGroup, Kind: "Role", Name: install.ImportKubeconfigsRole},
		Subjects: []rbacv1.Subject{{APIGroup: rolesGroup, Kind: rbacv1.UserKind, Name: "kubeconfig keeper"}},
	}
	testkit.Must(t, c.Create(ctx, binding))
	t.Cleanup(func() { _ = c.Delete(ctx, binding) })
	everybody["kubeconfig keeper"] = known(t, impersonate("kubeconfig keeper"))

	const noSecret, noImport = `cannot get resource "secrets"`, `cannot get resource "clusterimports"`
	rows := []request{
		{"fleet viewer", "reads an import", getting(imp), ""},
		{"fleet viewer", "lists imports", listing(&v1alpha1.ClusterImportList{}), ""},
		{"fleet viewer", "changes an import", patching(imp, `{"spec":{"redeploy":1}}`), `cannot patch resource "clusterimports"`},
		{"fleet viewer", "reads a kubeconfig", getting(secret), noSecret},
		{"fleet viewer", "lists kubeconfigs", listing(&corev1.SecretList{}, client.InNamespace(muster.ImportNamespace)), `cannot list resource "secrets"`},
		{"import admin", "reads an import", getting(imp), ""},
		{"import admin", "deletes an import", deleting(imp), ""},
		{"import admin", "reads a kubeconfig", getting(secret), noSecret},
		{"import admin", "uses a kubeconfig", patching(imp, `{"spec":{"redeploy":1}}`), `cannot use the Secret "none"`},
		{"import admin", "tells what became of it", patchingStatus(imp, `{"status":{"clusterUID":"x"}}`), `cannot patch resource "clusterimports/status"`},
		{"kubeconfig keeper", "reads a kubeconfig", getting(secret), ""},
		{"kubeconfig keeper", "lists kubeconfigs", listing(&corev1.SecretList{}, client.InNamespace(muster.ImportNamespace)), `cannot list resource "secrets"`},
		{"kubeconfig keeper", "reads a secret elsewhere", getting(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "x"}}), noSecret},
		{"kubeconfig keeper", "reads an import", getting(imp), noImport},
	}
	for who := range everybody {
		switch who {
		case "administrator", "fleet viewer", "import admin", "kubeconfig keeper":
			continue
		}
		rows = append(rows, request{who, "reads a kubeconfig", getting(secret), noSecret}, request{who, "reads an import", getting(imp), noImport},
			request{who, "imports a cluster", creating(&v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: p.own}, Spec: imp.Spec}), `cannot create resource "clusterimports"`})
	}
	return rows
}

// A hub without the gate has neither the kind nor its roles.
func TestImportsAreOffByDefault(t *testing.T) {
	c := otherHub(t, hub.Options{}, "UserAccess=false")
	err := c.List(context.Background(), &v1alpha1.ClusterImportList{})
	if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		t.Errorf("imports are served: %v", err)
	}
	for name, o := range map[string]client.Object{install.ImportViewRole: &rbacv1.ClusterRole{}, install.ImportAdminRole: &rbacv1.ClusterRole{}, muster.ImportNamespace: &corev1.Namespace{}} {
		if err := c.Get(context.Background(), client.ObjectKey{Name: name}, o); !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
