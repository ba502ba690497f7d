package hub_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func configMapManifest(name string) workv1.Manifest {
	return workv1.Manifest{RawExtension: runtime.RawExtension{
		Raw: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default"}}`, name),
	}}
}

func waitGone(t testing.TB, o client.Object) {
	t.Helper()
	testkit.Eventually(t, func() error {
		err := clientFor(t, admin).Get(context.Background(), client.ObjectKeyFromObject(o), o)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return fmt.Errorf("%T %s is still there, with the finalizers %v", o, o.GetName(), o.GetFinalizers())
		}
		return err
	})
}

func testForbiddenEventually(t testing.TB, what string, call func() error) {
	t.Helper()
	testkit.Eventually(t, func() error {
		if err := call(); !apierrors.IsForbidden(err) {
			return fmt.Errorf("%s: got %v, want a refusal", what, err)
		}
		return nil
	})
}

// grant gives a user rights for the time of a test, to list clusters among them.
func grant(t testing.TB, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	bestow(t, user, rules...)
	testkit.Eventually(t, func() error { // the authorizer learns of it by a watch
		return clientFor(t, impersonate(user)).List(context.Background(), &clusterv1.ManagedClusterList{})
	})
}

// bestow gives a user rights for the time of a test, which the authorizer learns
// of a moment later.
func bestow(t testing.TB, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	c := clientFor(t, admin)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test:" + user}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test:" + user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	for _, o := range []client.Object{role, binding} {
		testkit.Must(t, c.Create(context.Background(), o))
		t.Cleanup(func() { _ = c.Delete(context.Background(), o) })
	}
}

func editClusters() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclusters", "managedclustersetbindings"}, Verbs: []string{"*"}}
}

func TestNewClusterIsCompleted(t *testing.T) {
	name := clusterName(t, "new")
	testkit.Must(t, clientFor(t, admin).Create(context.Background(), newCluster(name)))
	mc := waitForCluster(t, name, func(*clusterv1.ManagedCluster) error { return nil })
	if got := mc.Labels[cluster.ClusterSetLabel]; got != "default" {
		t.Errorf("the cluster is in the set %q, want default", got)
	}
	if len(mc.Spec.Taints) != 1 || mc.Spec.Taints[0].Key != cluster.UnreachableTaint || mc.Spec.Taints[0].TimeAdded.IsZero() {
		t.Errorf("the taints are %v, want the unreachable one with a time", mc.Spec.Taints)
	}
	if len(mc.Finalizers) != 1 || mc.Finalizers[0] != cluster.ResourceCleanupFinalizer {
		t.Errorf("the finalizers are %v, want %s", mc.Finalizers, cluster.ResourceCleanupFinalizer)
	}
	if mc.Spec.LeaseDurationSeconds != 60 {
		t.Errorf("the lease duration is %d, want 60", mc.Spec.LeaseDurationSeconds)
	}
}

func TestAdmissionRefusesBadClusters(t *testing.T) {
	for name, x := range map[string]struct {
		object client.Object
		want   string
	}{
		"a dotted name":      {newCluster("a.b"), "metadata.name format is not correct"},
		"a long name":        {newCluster(strings.Repeat("a", 64)), "metadata.name format is not correct"},
		"an insecure url":    {withURL("http://example.org"), `url "http://example.org" is invalid in client configs`},
		"no url":             {withURL("::"), `url "::" is invalid in client configs`},
		"no manifests":       {newWork(), "manifests should not be empty"},
		"a nameless one":     {newWork(workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap"}`)}}), "metadata.name is missing"},
		"a duplicate":        {newWork(configMapManifest("a"), configMapManifest("a")), "duplicate manifest for resource default/a"},
		"too much":           {newWork(bigManifest(520_000)), "which exceeds the 512000 limit"},
		"a misnamed binding": {&clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "b"}}, "must have the same name as the target ManagedClusterSet"},
	} {
		t.Run(name, func(t *testing.T) {
			err := clientFor(t, admin).Create(context.Background(), x.object)
			if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want a bad request with %q", err, x.want)
			}
		})
	}
}

func withURL(url string) *clusterv1.ManagedCluster {
	mc := newCluster("with-url")
	mc.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: url}}
	return mc
}

func newWork(manifests ...workv1.Manifest) *workv1.ManifestWork {
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w"},
		Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: manifests}},
	}
}

func bigManifest(size int) workv1.Manifest {
	return workv1.Manifest{RawExtension: runtime.RawExtension{
		Raw: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":%q}}`, strings.Repeat("a", size)),
	}}
}

func TestAcceptingNeedsThePermissionToAccept(t *testing.T) {
	ctx := context.Background()
	name := clusterName(t, "accept")
	grant(t, "editor", editClusters(), join("*"))
	grant(t, "acceptor", editClusters(), join("*"), rbacv1.PolicyRule{
		APIGroups: []string{cluster.RegisterGroupName}, Resources: []string{"managedclusters/accept"}, ResourceNames: []string{name}, Verbs: []string{"update"},
	})
	editor, acceptor := clientFor(t, impersonate("editor")), clientFor(t, impersonate("acceptor"))
	accepted := newCluster(name)
	accepted.Spec.HubAcceptsClient = ptr.To(true)
	err := editor.Create(ctx, accepted)
	mustBeForbidden(t, "creating an accepted cluster", err)
	if want := `user "editor" cannot update the HubAcceptsClient field`; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	testkit.Must(t, acceptor.Create(ctx, accepted))
	// Denying needs no permission of its own; accepting again does.
	deny := newCluster(name)
	testkit.Must(t, editor.Patch(ctx, deny, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"hubAcceptsClient":false}}`))))
	mustBeForbidden(t, "accepting again", editor.Patch(ctx, deny, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"hubAcceptsClient":true}}`))))
}

func join(set string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclustersets/join"}, Verbs: []string{"create"}}
	if set != "*" {
		r.ResourceNames = []string{set}
	}
	return r
}

func TestMovingBetweenSetsNeedsThePermissionForBoth(t *testing.T) {
	ctx := context.Background()
	name := clusterName(t, "move")
	testkit.Must(t, clientFor(t, admin).Create(ctx, newCluster(name)))
	for user, x := range map[string]struct {
		sets    []string
		allowed bool
	}{"mover-none": {nil, false}, "mover-old": {[]string{"default"}, false}, "mover-new": {[]string{"blue"}, false}, "mover-both": {[]string{"default", "blue"}, true}} {
		rules := []rbacv1.PolicyRule{editClusters()}
		for _, s := range x.sets {
			rules = append(rules, join(s))
		}
		grant(t, user, rules...)
		err := clientFor(t, impersonate(user)).Patch(ctx, newCluster(name), client.RawPatch("application/merge-patch+json",
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:"blue"}}}`, cluster.ClusterSetLabel)), client.DryRunAll)
		switch {
		case x.allowed && err != nil:
			t.Errorf("%s: %v", user, err)
		case !x.allowed && !apierrors.IsForbidden(err):
			t.Errorf("%s: got %v, want a refusal", user, err)
		}
	}
}

func TestBindingASetNeedsThePermissionToBind(t *testing.T) {
	ctx := context.Background()
	grant(t, "binder", editClusters(), rbacv1.PolicyRule{
		APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclustersets/bind"}, ResourceNames: []string{"blue"}, Verbs: []string{"create"},
	})
	binder := clientFor(t, impersonate("binder"))
	binding := func(set string) *clusterv1beta2.ManagedClusterSetBinding {
		return &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: set}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set}}
	}
	testkit.Must(t, binder.Create(ctx, binding("blue"), client.DryRunAll))
	mustBeForbidden(t, "binding another set", binder.Create(ctx, binding("red"), client.DryRunAll))
}

func TestExecutingAsNeedsThePermission(t *testing.T) {
	ctx := context.Background()
	editWorks := rbacv1.PolicyRule{APIGroups: []string{"work.open-cluster-management.io"}, Resources: []string{"manifestworks"}, Verbs: []string{"create"}}
	list := rbacv1.PolicyRule{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"list"}}
	grant(t, "author", editWorks, list)
	grant(t, "executor", editWorks, list, rbacv1.PolicyRule{
		APIGroups: []string{"work.open-cluster-management.io"}, Resources: []string{"manifestworks"}, Verbs: []string{"execute-as"},
		ResourceNames: []string{"system:serviceaccount:apps:deployer"},
	})
	mw := newWork(configMapManifest("a"))
	mw.Spec.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type:           workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "apps", Name: "deployer"},
	}}
	err := clientFor(t, impersonate("author")).Create(ctx, mw.DeepCopy(), client.DryRunAll)
	if !apierrors.IsBadRequest(err) { // as upstream
		t.Fatalf("executing as another: got %v, want a refusal", err)
	}
	if want := "user author cannot manipulate the Manifestwork with executor apps/deployer in namespace default"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	testkit.Must(t, clientFor(t, impersonate("executor")).Create(ctx, mw.DeepCopy(), client.DryRunAll))
	testkit.Must(t, clientFor(t, impersonate("author")).Create(ctx, newWork(configMapManifest("a")), client.DryRunAll))
}

func TestMetricsAreThoseOfServerAndControllers(t *testing.T) {
	data, err := clientsetFor(t, admin).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	testkit.Must(t, err)
	for _, want := range []string{
		"apiserver_request_total{", `controller_runtime_reconcile_total{controller="managedcluster"`, "go_goroutines ", "etcd_request_duration_seconds_count{",
	} {
		if strings.Count(string(data), "\n"+want) == 0 {
			t.Errorf("there is no metric %s", want)
		}
	}
	_, err = clientsetFor(t, impersonate("nobody")).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	mustBeForbidden(t, "reading metrics without the permission", err)
}
