package hub_test

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

func mayWriteClouds() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: []string{"logicalclouds", "logicalclouds/status"}, Verbs: []string{"*"}}
}

func onRole(verb, name string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: []string{"accessroles"}, Verbs: []string{verb}, ResourceNames: []string{name}}
}

// mustRefuse checks that an error says what is wanted; "" is no error.
func mustRefuse(t testing.TB, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}

// A cloud gives no more than its author may give.
func TestLogicalCloudsGiveWhatTheirAuthorsMayGive(t *testing.T) {
	w := testworld.New(t, clientFor(t, admin))
	ns := w.Namespace()
	pods := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}}}
	for name, everywhere := range map[string]bool{"edit": false, "nodes": true} {
		w.Make(&v1alpha1.AccessRole{ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + name}, Rules: pods, ClusterScopeAllowed: everywhere})
	}
	edit, nodes, tokens := ns+"-edit", ns+"-nodes", ns+"-tokens"
	minting := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}}}
	w.Make(&v1alpha1.AccessRole{ObjectMeta: metav1.ObjectMeta{Name: tokens}, Rules: minting, ClusterScopeAllowed: true})
	lists := rbacv1.PolicyRule{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"list"}}
	grant(t, ns+"-tenant", mayWriteClouds(), lists)
	grant(t, ns+"-lead", mayWriteClouds(), lists, onRole("bind", edit), pods[0])
	grant(t, ns+"-owner", mayWriteClouds(), lists, onRole("bind", nodes), onRole(muster.VerbGrantClusterScope, nodes),
		rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: []string{muster.AdoptableNamespaces}, Verbs: []string{muster.VerbAdopt}, ResourceNames: []string{"apps"}})
	grant(t, ns+"-minter", mayWriteClouds(), lists, onRole("bind", tokens), onRole(muster.VerbGrantClusterScope, tokens))
	grant(t, ns+"-head", mayWriteClouds(), lists, rbacv1.PolicyRule{
		APIGroups: []string{muster.GroupName}, Resources: []string{"accessroles"}, Verbs: []string{"escalate", "bind", muster.VerbGrantClusterScope},
	})
	grant(t, ns+"-chief", mayWriteClouds(), lists, rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: []string{"accessroles"}, Verbs: []string{"escalate"}})
	secrets := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}
	for _, x := range []struct {
		who, what string
		change    func(*v1alpha1.LogicalCloudSpec)
		want      string
	}{
		{"tenant", "no grants", func(s *v1alpha1.LogicalCloudSpec) { s.Grants = nil }, ""},
		{"tenant", "a role", func(*v1alpha1.LogicalCloudSpec) {}, "spec.grants[0]: user \"" + ns + "-tenant\" may not grant the AccessRole"},
		{"lead", "a role", func(*v1alpha1.LogicalCloudSpec) {}, ""},
		{"lead", "another role", func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Role = nodes }, "the verb bind on it is missing"},
		{"lead", "a role that does not exist", func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Role = "edti" }, `spec.grants[0].role: Not found: "edti"`},
		{"lead", "rules that it has", func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Role, s.Grants[0].Rules = "", pods }, ""},
		{"lead", "rules that it lacks", func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Role, s.Grants[0].Rules = "", secrets }, "may not grant more than it has: the verb get on secrets"},
		{"lead", "all", func(s *v1alpha1.LogicalCloudSpec) {
			s.Grants[0].Role, s.Grants[0].Rules = "", []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
		}, "may not grant more than it has"},
		{"chief", "rules that it lacks", func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Role, s.Grants[0].Rules = "", secrets }, ""},
		{"chief", "rules in all clusters", func(s *v1alpha1.LogicalCloudSpec) {
			s.Grants[0] = v1alpha1.Grant{Rules: secrets, Scope: v1alpha1.ScopeCluster, Users: []string{"jo"}}
		}, "the verb grant-cluster-scope"},
		{"lead", "a role beyond its scope", func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Scope = v1alpha1.ScopeCluster }, "spec.grants[0].scope"},
		{"lead", "the whole cluster", func(s *v1alpha1.LogicalCloudSpec) {
			s.Grants[0].Role, s.Grants[0].Scope = nodes, v1alpha1.ScopeCluster
		}, "the verb grant-cluster-scope"},
		{"owner", "the whole cluster", func(s *v1alpha1.LogicalCloudSpec) {
			s.Grants[0].Role, s.Grants[0].Scope = nodes, v1alpha1.ScopeCluster
		}, ""},
		{"minter", "others' tokens in the namespace", func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Role = tokens }, ""},
		{"minter", "others' tokens in the whole cluster", func(s *v1alpha1.LogicalCloudSpec) {
			s.Grants[0].Role, s.Grants[0].Scope = tokens, v1alpha1.ScopeCluster
		}, "spec.grants[0]: user \"" + ns + "-minter\" may not let users act as others: in whole clusters create serviceaccounts/token makes"},
		{"head", "others' tokens in the whole cluster", func(s *v1alpha1.LogicalCloudSpec) {
			s.Grants[0].Role, s.Grants[0].Scope = tokens, v1alpha1.ScopeCluster
		}, ""},
		{"head", "all of the whole cluster", func(s *v1alpha1.LogicalCloudSpec) {
			s.Grants[0] = v1alpha1.Grant{Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}, Scope: v1alpha1.ScopeCluster, Users: []string{"jo"}}
		}, ""},
		{"lead", "somebody's namespace", func(s *v1alpha1.LogicalCloudSpec) { s.Namespace.Existing = v1alpha1.ExistingAdopt }, "the verb adopt on adoptablenamespaces \"apps\" is missing"},
		{"owner", "somebody's namespace", func(s *v1alpha1.LogicalCloudSpec) { s.Grants, s.Namespace.Existing = nil, v1alpha1.ExistingAdopt }, ""},
		{"lead", "pods without security", func(s *v1alpha1.LogicalCloudSpec) {
			s.Namespace.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}
		}, "may not set keys of Kubernetes"},
		{"lead", "the system's namespace", func(s *v1alpha1.LogicalCloudSpec) { s.Namespace.Name = "kube-system" }, "spec.namespace.name"},
		{"lead", "a component's name", func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Users = []string{"system:kube-scheduler"} }, "spec.grants[0].users[0]"},
	} {
		lc := &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}}
		lc.Spec.Placements = []v1alpha1.PlacementReference{{Name: "all"}}
		lc.Spec.Namespace.Name = "apps"
		lc.Spec.Grants = []v1alpha1.Grant{{Role: edit, Users: []string{"jo"}}}
		x.change(&lc.Spec)
		err := clientFor(t, impersonate(ns+"-"+x.who)).Create(context.Background(), lc, client.DryRunAll)
		mustRefuse(t, x.who+" gives "+x.what, err, x.want)
	}
	lc := &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}}
	lc.Spec.Placements, lc.Spec.Namespace.Name = []v1alpha1.PlacementReference{{Name: "all"}}, "apps"
	lc.Spec.Grants = []v1alpha1.Grant{{Role: edit, Users: []string{"jo", "al"}}}
	w.Make(lc)
	for _, x := range []struct{ what, patch, want string }{
		{"takes from a grant", `{"spec":{"grants":[{"role":"` + edit + `","users":["jo"]}]}}`, ""},
		{"changes other things", `{"spec":{"access":{"defaultLifetimeSeconds":900}}}`, ""},
		{"adds to a grant", `{"spec":{"grants":[{"role":"` + edit + `","users":["jo","al","eve"]}]}}`, "may not grant the AccessRole"},
		{"removes the hub's finalizer", `{"metadata":{"finalizers":null}}`, "is removed by the hub"},
		{"changes the namespace", `{"spec":{"namespace":{"name":"other"}}}`, "can't be changed"},
	} {
		testkit.Eventually(t, func() error { return w.Get(context.Background(), client.ObjectKeyFromObject(lc), lc) })
		err := clientFor(t, impersonate(ns+"-tenant")).Patch(context.Background(), lc.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(x.patch)), client.DryRunAll)
		if x.what == "removes the hub's finalizer" {
			w.Eventually(func() error {
				err = clientFor(t, impersonate(ns+"-tenant")).Patch(context.Background(), lc.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(x.patch)), client.DryRunAll)
				if err == nil {
					return context.DeadlineExceeded // the hub has not added it yet
				}
				return nil
			})
		}
		mustRefuse(t, "tenant "+x.what, err, x.want)
	}
	err := clientFor(t, impersonate(ns+"-tenant")).Status().Patch(context.Background(), lc.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"revokedKeys":null}}`)), client.DryRunAll)
	mustRefuse(t, "tenant writes the status", err, "by the hub only")
}

// The works of clouds give users rights in clusters. Who may write other works in a
// cluster's namespace can't write these.
func TestWorksOfCloudsAreTheHubsAlone(t *testing.T) {
	w := testworld.New(t, clientFor(t, admin))
	ns := w.Namespace() // plays a cluster's namespace
	works := rbacv1.PolicyRule{APIGroups: []string{work.GroupName}, Resources: []string{"*"}, Verbs: []string{"*"}}
	lists := rbacv1.PolicyRule{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"list"}}
	grant(t, ns+"-author", works, lists)
	author := clientFor(t, impersonate(ns+"-author"))
	made := func(name string, labels map[string]string) *workv1.ManifestWork {
		mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels}}
		mw.Spec.Workload.Manifests = []workv1.Manifest{configMapManifest(name)}
		return mw
	}
	label := map[string]string{muster.LogicalCloudLabel: "0123"}
	theirs, plain := made("cloud", label), made("plain", nil)
	w.Make(theirs)
	w.Make(plain)
	patch := func(c client.Client, mw *workv1.ManifestWork, body string) error {
		return c.Patch(context.Background(), mw.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body)), client.DryRunAll)
	}
	status := func(c client.Client) error {
		return c.Status().Patch(context.Background(), theirs.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[]}}`)), client.DryRunAll)
	}
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "set", Labels: label}}
	set.Spec.ManifestWorkTemplate = plain.Spec
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p"}}
	const hubs = "are written by the hub only"
	for _, x := range []struct {
		what string
		err  error
		want string
	}{
		{"makes one", author.Create(context.Background(), made("new", label), client.DryRunAll), hubs},
		{"deletes one", author.Delete(context.Background(), theirs.DeepCopy(), client.DryRunAll), hubs},
		{"deletes all", author.DeleteAllOf(context.Background(), &workv1.ManifestWork{}, client.InNamespace(ns), client.DryRunAll), hubs},
		{"changes one", patch(author, theirs, `{"spec":{"deleteOption":{"propagationPolicy":"Orphan"}}}`), hubs},
		{"says which keys are bound", patch(author, theirs, `{"metadata":{"annotations":{"muster-fleet.io/bound-keys":"x"}}}`), hubs},
		{"takes the label off", patch(author, theirs, `{"metadata":{"labels":null}}`), hubs},
		{"puts the label on", patch(author, plain, `{"metadata":{"labels":{"muster-fleet.io/logical-cloud":"0123"}}}`), hubs},
		{"lets go of what is in the cluster", patch(author, theirs, `{"metadata":{"finalizers":["x.example/y"]}}`), hubs},
		{"reports on one", status(author), "by the cluster's agent only"},
		{"has a replica set make one", author.Create(context.Background(), set, client.DryRunAll), "leave it out"},
		{"has one applied again", patch(author, theirs, `{"metadata":{"annotations":{"muster-fleet.io/replay":"1"}}}`), ""},
		{"changes another work", patch(author, plain, `{"metadata":{"labels":{"a":"b"}}}`), ""},
	} {
		mustRefuse(t, "an author "+x.what, x.err, x.want)
	}
}
