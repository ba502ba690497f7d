package cloud_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access/cloud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// hash is a key's hash that ends in a number.
func hash(n int) string { return fmt.Sprintf("%032x", n) }

func prod(change ...func(*v1alpha1.LogicalCloudSpec)) *v1alpha1.LogicalCloud {
	c := &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "prod"}}
	c.Spec.Namespace = v1alpha1.CloudNamespace{Name: "apps", Labels: map[string]string{"tier": "gold"}}
	c.Spec.Quotas = []v1alpha1.CloudQuota{{Name: "main", Hard: corev1.ResourceList{"limits.cpu": resource.MustParse("4")}, Scopes: []corev1.ResourceQuotaScope{"NotTerminating"}}}
	c.Spec.Grants = []v1alpha1.Grant{{Role: "edit", Users: []string{"jo"}, Groups: []string{"devs"}}}
	for _, f := range change {
		f(&c.Spec)
	}
	return c
}

func catalogue() map[string]*v1alpha1.AccessRole {
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}
	return map[string]*v1alpha1.AccessRole{
		"edit":  {Rules: []rbacv1.PolicyRule{rule}},
		"nodes": {Rules: []rbacv1.PolicyRule{rule, {NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}, ClusterScopeAllowed: true},
	}
}

// render renders the cloud for the cluster paris, and returns the objects by
// kind and name, in order.
func render(t *testing.T, in cloud.Input) (cloud.Output, []string, map[string]*unstructured.Unstructured) {
	t.Helper()
	in.Cluster, in.HubID = "paris", "0123abcd"
	if in.Accounts == "" {
		in.Accounts = cloud.AccountNamespace(in.Cloud, in.HubID)
	}
	if in.Catalogue == nil {
		in.Catalogue = catalogue()
	}
	out := cloud.Render(in)
	var order []string
	objects := map[string]*unstructured.Unstructured{}
	for _, m := range out.Work.Spec.Workload.Manifests {
		o := &unstructured.Unstructured{}
		testkit.Must(t, o.UnmarshalJSON(m.Raw))
		name := o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
		order = append(order, name)
		objects[name] = o
		if o.GetLabels()[muster.LogicalCloudLabel] != muster.CloudID("team-a", "prod") {
			t.Errorf("%s has the labels %v", name, o.GetLabels())
		}
	}
	return out, order, objects
}

// subjectsOf are the names of a binding's subjects.
func subjectsOf(t *testing.T, o *unstructured.Unstructured) []string {
	t.Helper()
	var binding struct{ Subjects []rbacv1.Subject }
	raw, err := json.Marshal(o.Object)
	testkit.Must(t, err)
	testkit.Must(t, json.Unmarshal(raw, &binding))
	names := []string{}
	for _, s := range binding.Subjects {
		names = append(names, s.Kind+" "+strings.TrimPrefix(s.Namespace+"/"+s.Name, "/"))
	}
	return names
}

func mustEqual(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestObjectsComeInTheOrderInWhichTheyNeedEachOther(t *testing.T) {
	c := prod(func(s *v1alpha1.LogicalCloudSpec) {
		s.Grants = append(s.Grants, v1alpha1.Grant{Role: "nodes", Scope: v1alpha1.ScopeCluster, Users: []string{"al"}})
	})
	id := muster.CloudID("team-a", "prod")
	accounts := "muster-access-0123abcd-" + id
	out, order, objects := render(t, cloud.Input{Cloud: c, Keys: []cloud.Key{{Hash: hash(1), User: "jo", Token: true}, {Hash: hash(2), User: "al"}, {Hash: hash(3), User: "eve"}}})
	mustEqual(t, "the objects", order, []string{
		"Namespace apps", "ResourceQuota apps/main",
		"Namespace " + accounts, "ResourceQuota " + accounts + "/muster-access", "ServiceAccount " + accounts + "/muster-access-" + hash(1),
		"Role apps/muster:edit", "RoleBinding apps/muster:edit", "ClusterRole muster:" + id + ":nodes", "ClusterRoleBinding muster:" + id + ":nodes",
	})
	w := out.Work
	if w.Namespace != "paris" || w.Name != muster.CloudWork("team-a", "prod") || w.Labels[muster.LogicalCloudLabel] != id ||
		w.Annotations[muster.LogicalCloudAnnotation] != "team-a/prod" || w.Annotations[muster.BoundKeysAnnotation] != hash(1)+","+hash(2) {
		t.Errorf("the work is %+v", w.ObjectMeta)
	}
	mustEqual(t, "who may edit", subjectsOf(t, objects["RoleBinding apps/muster:edit"]), []string{"Group muster-key:" + hash(1), "ServiceAccount " + accounts + "/muster-access-" + hash(1)})
	mustEqual(t, "who may see nodes", subjectsOf(t, objects["ClusterRoleBinding muster:"+id+":nodes"]), []string{"Group muster-key:" + hash(2)})
	if quota, _, _ := unstructured.NestedString(objects["ResourceQuota apps/main"].Object, "spec", "hard", "limits.cpu"); quota != "4" {
		t.Errorf("the quota is %v", objects["ResourceQuota apps/main"].Object)
	}
	ns := objects["Namespace apps"]
	if ns.GetLabels()["tier"] != "gold" || ns.GetAnnotations()[muster.HubAnnotation] != "0123abcd" || ns.GetAnnotations()[muster.LogicalCloudAnnotation] != "team-a/prod" {
		t.Errorf("the namespace is %v", ns.Object)
	}
	if rules, _, _ := unstructured.NestedSlice(objects["ClusterRole muster:"+id+":nodes"].Object, "rules"); len(rules) != 2 {
		t.Errorf("the rules are %v", rules)
	}
}

func TestWorksAreTheSameInWhateverOrderKeysCome(t *testing.T) {
	keys := []cloud.Key{
		{Hash: hash(1), User: "jo", Since: noon}, {Hash: hash(2), User: "x", Groups: []string{"devs"}, Since: noon.Add(1)},
		{Hash: hash(1), User: "jo", Since: noon.Add(2), Token: true}, {Hash: hash(2), User: "jo", Since: noon.Add(3)},
	}
	first, _, objects := render(t, cloud.Input{Cloud: prod(), Keys: keys})
	mustEqual(t, "the subjects", subjectsOf(t, objects["RoleBinding apps/muster:edit"]),
		[]string{"Group muster-key:" + hash(1), "ServiceAccount " + first.Work.Annotations[muster.AccountNamespaceAnnotation] + "/muster-access-" + hash(1), "Group muster-key:" + hash(2)})
	slices.Reverse(keys)
	second, _, _ := render(t, cloud.Input{Cloud: prod(), Keys: keys})
	a, err := json.Marshal(first.Work)
	testkit.Must(t, err)
	b, err := json.Marshal(second.Work)
	testkit.Must(t, err)
	if string(a) != string(b) {
		t.Errorf("the works differ:\n%s\n%s", a, b)
	}
}

// A binding that is missing from a work is removed after the work counts as
// applied. One that names nobody is changed before.
func TestABindingOfNobodySaysSo(t *testing.T) {
	out, _, objects := render(t, cloud.Input{Cloud: prod()})
	if subjects, found, _ := unstructured.NestedSlice(objects["RoleBinding apps/muster:edit"].Object, "subjects"); !found || len(subjects) != 0 {
		t.Errorf("the binding is %v", objects["RoleBinding apps/muster:edit"].Object)
	}
	if out.Work.Annotations[muster.BoundKeysAnnotation] != "" {
		t.Errorf("the annotations are %v", out.Work.Annotations)
	}
}

func TestWhatMayNotBeGrantedIsGivenToNobody(t *testing.T) {
	for name, x := range map[string]struct {
		grant v1alpha1.Grant
		want  string
	}{
		"a role that is gone":      {v1alpha1.Grant{Role: "gone", Users: []string{"jo"}}, `there is no AccessRole "gone"`},
		"a role for one namespace": {v1alpha1.Grant{Role: "edit", Scope: v1alpha1.ScopeCluster, Users: []string{"jo"}}, `the AccessRole "edit" may not be granted with the scope Cluster`},
	} {
		c := prod(func(s *v1alpha1.LogicalCloudSpec) { s.Grants = []v1alpha1.Grant{x.grant} })
		out, _, objects := render(t, cloud.Input{Cloud: c, Keys: []cloud.Key{{Hash: hash(1), User: "jo"}}})
		mustEqual(t, name, cloud.Problems(c, catalogue()), []string{x.want})
		if out.Work.Annotations[muster.BoundKeysAnnotation] != "" {
			t.Errorf("%s: keys are bound: %v", name, out.Work.Annotations)
		}
		for kind, o := range objects {
			if rules, found, _ := unstructured.NestedSlice(o.Object, "rules"); found && len(rules) > 0 {
				t.Errorf("%s: %s has the rules %v", name, kind, rules)
			}
			if subjects, found, _ := unstructured.NestedSlice(o.Object, "subjects"); found && len(subjects) > 0 {
				t.Errorf("%s: %s has the subjects %v", name, kind, subjects)
			}
		}
	}
}

func TestRolesOfANamespaceHaveNoPaths(t *testing.T) {
	c := prod(func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Role = "nodes" })
	_, _, objects := render(t, cloud.Input{Cloud: c})
	if rules, _, _ := unstructured.NestedSlice(objects["Role apps/muster:nodes"].Object, "rules"); len(rules) != 1 {
		t.Errorf("the rules are %v", rules)
	}
}

func TestEqualGrantsShareARole(t *testing.T) {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"*"}}}
	c := prod(func(s *v1alpha1.LogicalCloudSpec) {
		s.Grants = []v1alpha1.Grant{{Rules: rules, Users: []string{"jo"}}, {Rules: rules, Users: []string{"al"}}, {Role: strings.Repeat("x", 253), Users: []string{"al"}}}
	})
	_, order, objects := render(t, cloud.Input{Cloud: c, Keys: []cloud.Key{{Hash: hash(1), User: "jo"}, {Hash: hash(2), User: "al"}}})
	if len(order) != 8 {
		t.Fatalf("the objects are %v", order)
	}
	mustEqual(t, "the subjects", subjectsOf(t, objects[order[5]]), []string{"Group muster-key:" + hash(1), "Group muster-key:" + hash(2)})
	for _, name := range order {
		if len(objects[name].GetName()) > 253 {
			t.Errorf("a name has %d characters", len(objects[name].GetName()))
		}
	}
}

// Users have no rights where the accounts are: no role and no binding is there, and
// neither pods nor Secrets can be made by which others get tokens.
func TestNobodyHasRightsWhereAccountsAre(t *testing.T) {
	keys := []cloud.Key{{Hash: hash(1), User: "jo", Token: true}, {Hash: hash(2), User: "al", Token: true}}
	c := prod(func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Users = []string{"jo", "al"} })
	out, order, objects := render(t, cloud.Input{Cloud: c, Keys: keys})
	accounts := cloud.AccountNamespace(c, "0123abcd")
	if out.Work.Annotations[muster.AccountNamespaceAnnotation] != accounts {
		t.Errorf("the annotations are %v", out.Work.Annotations)
	}
	for _, name := range order {
		kind, where := objects[name].GetKind(), objects[name].GetNamespace()
		if where == accounts && kind != "ServiceAccount" && kind != "ResourceQuota" || kind == "ServiceAccount" && where != accounts {
			t.Errorf("there is %s", name)
		}
	}
	hard, _, _ := unstructured.NestedStringMap(objects["ResourceQuota "+accounts+"/muster-access"].Object, "spec", "hard")
	if len(hard) != 2 || hard["pods"] != "0" || hard["secrets"] != "0" {
		t.Errorf("the quota is %v", hard)
	}
	ns := objects["Namespace "+accounts]
	if ns.GetAnnotations()[muster.HubAnnotation] != "0123abcd" || ns.GetAnnotations()[muster.LogicalCloudAnnotation] != "team-a/prod" || ns.GetLabels()["tier"] != "" {
		t.Errorf("the namespace is %v", ns.Object)
	}
	if rules := out.Work.Spec.DeleteOption.SelectivelyOrphan.OrphaningRules; len(rules) != 1 || rules[0].Name != "apps" {
		t.Errorf("what stays is %v", rules)
	}
	// Works of an earlier version, until they are moved, and clouds without tokens.
	_, order, objects = render(t, cloud.Input{Cloud: c, Keys: keys, Accounts: "apps"})
	if slices.Contains(order, "Namespace "+accounts) || objects["ServiceAccount apps/muster-access-"+hash(1)] == nil {
		t.Errorf("the objects are %v", order)
	}
	c.Spec.Access.Modes = []v1alpha1.AccessMode{v1alpha1.AccessCertificate}
	_, order, objects = render(t, cloud.Input{Cloud: c, Keys: keys})
	mustEqual(t, "the objects without tokens", order, []string{"Namespace apps", "ResourceQuota apps/main", "Role apps/muster:edit", "RoleBinding apps/muster:edit"})
	mustEqual(t, "the subjects without tokens", subjectsOf(t, objects["RoleBinding apps/muster:edit"]), []string{"Group muster-key:" + hash(1), "Group muster-key:" + hash(2)})
}

func TestNamespacesAreKeptUnlessTheyAreToGo(t *testing.T) {
	for name, x := range map[string]struct {
		onDelete v1alpha1.OnDelete
		adopted  bool
		want     v1alpha1.OnDelete
	}{
		"by default":         {"", false, v1alpha1.OnDeleteKeep},
		"when asked for":     {v1alpha1.OnDeleteKeep, false, v1alpha1.OnDeleteKeep},
		"not when unwanted":  {v1alpha1.OnDeleteDelete, false, v1alpha1.OnDeleteDelete},
		"always if adopted":  {v1alpha1.OnDeleteDelete, true, v1alpha1.OnDeleteKeep},
		"adopted and wanted": {v1alpha1.OnDeleteKeep, true, v1alpha1.OnDeleteKeep},
	} {
		out, _, objects := render(t, cloud.Input{Cloud: prod(func(s *v1alpha1.LogicalCloudSpec) { s.Namespace.OnDelete = x.onDelete }), Adopted: x.adopted})
		option := out.Work.Spec.DeleteOption
		kept := option.PropagationPolicy == workv1.DeletePropagationPolicyTypeSelectivelyOrphan &&
			slices.Equal(option.SelectivelyOrphan.OrphaningRules, []workv1.OrphaningRule{{Resource: "namespaces", Name: "apps"}})
		if kept != (x.want == v1alpha1.OnDeleteKeep) || !kept && option.PropagationPolicy != workv1.DeletePropagationPolicyTypeForeground {
			t.Errorf("%s: the delete option is %+v", name, option)
		}
		marked := objects["Namespace apps"].GetAnnotations()[muster.AdoptedAnnotation] == "true" && out.Work.Annotations[muster.AdoptedAnnotation] == "true"
		if marked != x.adopted || out.Work.Annotations[muster.RetentionAnnotation] != string(x.want) {
			t.Errorf("%s: the work's annotations are %v", name, out.Work.Annotations)
		}
	}
}

func TestTheYoungestKeysHaveNoRoom(t *testing.T) {
	var keys []cloud.Key
	for i := range 400 {
		keys = append(keys, cloud.Key{Hash: hash(i), User: "jo", Since: noon.Add(-time.Duration(i) * time.Second)})
	}
	out, _, objects := render(t, cloud.Input{Cloud: prod(), Keys: keys, Limit: 20000})
	size := 0
	for _, m := range out.Work.Spec.Workload.Manifests {
		size += m.Size()
	}
	bound := subjectsOf(t, objects["RoleBinding apps/muster:edit"])
	if size > 20000 || out.LeftOut == 0 || len(bound)+out.LeftOut != 400 || bound[0] != "Group muster-key:"+hash(399) || len(bound) < 100 {
		t.Errorf("%d keys in %d bytes, %d left out, the first is %s", len(bound), size, out.LeftOut, bound[0])
	}
	if strings.Contains(out.Work.Annotations[muster.BoundKeysAnnotation], hash(0)) {
		t.Error("a key without a binding counts as bound")
	}
}

func TestAnnotationsHaveRoomForAllKeys(t *testing.T) {
	keys := make([]cloud.Key, 0, cloud.MaxKeys+10)
	for i := range cloud.MaxKeys + 10 {
		keys = append(keys, cloud.Key{Hash: hash(i), User: "jo"})
	}
	out, _, _ := render(t, cloud.Input{Cloud: prod(), Keys: keys, Limit: 10 << 20})
	if out.LeftOut != 10 || len(out.Work.Annotations[muster.BoundKeysAnnotation]) > 250<<10 {
		t.Errorf("%d keys are left out, and the annotation has %d bytes", out.LeftOut, len(out.Work.Annotations[muster.BoundKeysAnnotation]))
	}
}
