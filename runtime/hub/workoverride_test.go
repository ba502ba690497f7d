package hub_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// An override decides what is done in clusters: nobody gets more by one than by writing the
// set itself, and what can't be meant is refused when it is written.
func TestOverridesTakeTheRightsOfTheSet(t *testing.T) {
	ctx, c := context.Background(), clientFor(t, admin)
	const namespace = "overriding"
	testkit.Must(t, c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	writes := []string{"create", "update", "patch", "get"}
	clusters := rule("cluster.open-cluster-management.io", "managedclusters", "list")
	sets := rule("work.open-cluster-management.io", "manifestworkreplicasets", writes...)
	grant(t, "override-writer", sets, clusters, rule(muster.GroupName, "workoverrides", writes...))
	grant(t, "override-adding", clusters, rule("addon.open-cluster-management.io", "addontemplates", writes...))
	grant(
		t,
		"override-executing",
		sets,
		clusters,
		rule("work.open-cluster-management.io", "manifestworks", "execute-as"),
	)

	named := &v1alpha1.WorkOverride{ObjectMeta: metav1.ObjectMeta{
		Namespace:   namespace,
		Name:        "named",
		Annotations: map[string]string{muster.OverrideDigestAnnotation: "of my own"},
	}}
	named.Spec.Values = []v1alpha1.OverrideValue{{Name: "REGION", Label: ptr.To("region")}}
	digest := override.Digest(named.Spec)
	testkit.Must(t, clientFor(t, impersonate("override-writer")).Create(ctx, named))
	if got := named.Annotations[muster.OverrideDigestAnnotation]; got != digest {
		t.Errorf("the digest of the override is %q, want %q", got, digest)
	}

	type set = workv1alpha1.ManifestWorkReplicaSet
	n := 0
	make := func(annotations map[string]string, changes ...func(*set)) func(client.Client) error {
		return func(c client.Client) error {
			n++
			s := &set{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "s", Annotations: annotations}}
			s.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p"}}
			s.Spec.PlacementRefs[0].RolloutStrategy.Type = "All"
			s.Spec.ManifestWorkTemplate.Workload.Manifests = []workv1.Manifest{configMapManifest("a")}
			for _, change := range changes {
				change(s)
			}
			return c.Create(ctx, s)
		}
	}
	with := func(value string) map[string]string { return map[string]string{muster.OverrideAnnotation: value} }
	gated := func(value string) map[string]string {
		return map[string]string{muster.OverrideAnnotation: value, muster.RolloutGatesAnnotation: `[{"group":"b"}]`}
	}
	executed := func(s *set) {
		s.Spec.ManifestWorkTemplate.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
			Type:           workv1.ExecutorSubjectTypeServiceAccount,
			ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "n", Name: "sa"},
		}}
	}
	var theirs set // a set of somebody else, carried out by an executor
	testkit.Must(
		t,
		make(
			nil,
			executed,
			func(s *set) { s.GenerateName, s.Name = "", "theirs" },
		)(
			clientFor(t, impersonate("override-executing")),
		),
	)
	testkit.Must(t, c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "theirs"}, &theirs))
	annotate := func(value string) func(client.Client) error {
		return func(c client.Client) error {
			changed := theirs.DeepCopy()
			changed.Annotations = with(value)
			return c.Patch(ctx, changed, client.MergeFrom(&theirs))
		}
	}
	create := func(change func(*v1alpha1.WorkOverrideSpec)) func(client.Client) error {
		return func(c client.Client) error {
			o := &v1alpha1.WorkOverride{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "o"}}
			change(&o.Spec)
			return c.Create(ctx, o)
		}
	}
	templates := 0
	template := func(value string) func(client.Client) error {
		return func(c client.Client) error {
			templates++
			t := &addonv1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("override-%d", templates), Annotations: with(value),
			}}
			t.Spec.AddonName = "override"
			t.Spec.AgentSpec.Workload.Manifests = []workv1.Manifest{configMapManifest("a")}
			return c.Create(ctx, t)
		}
	}
	const inline = `{"values":[{"name":"REGION","label":"region"}]}`
	for _, x := range []struct {
		who, what string
		do        func(client.Client) error
		refusal   string
	}{
		{"override-writer", "a set names one", make(with("named")), ""},
		{"override-writer", "a set has its own", make(with(inline)), ""},
		{"override-writer", "what is mistyped", make(with(`{"valus":[]}`)), `unknown field "valus"`},
		{"override-writer", "no such manifest", make(with(
			`{"overrides":[{"manifests":{"kind":"Deployment"},"type":"Merge","patch":{}}]}`)),
			"spec.overrides[0].manifests: there is no such manifest (kind Deployment): the manifests are " +
				"ConfigMap a"},
		{"override-writer", "gates and a name", make(gated("named")),
			"names the WorkOverride named alone, which others may change, and its rollout has gates: write named@"},
		{"override-writer", "gates and a digest", make(gated("named@" + digest)), ""},
		{"override-writer", "gates and its own", make(gated(inline)), ""},
		{
			"override-executing",
			"an executor and a name",
			make(with("named"), executed),
			"in the name of an executor: write named@",
		},
		{"override-executing", "an executor and a digest", make(with("named@"+digest), executed), ""},
		{"override-writer", "the set of others, in an executor's name", annotate(inline), "executor n/sa"},
		{"override-writer", "a digest for the set of others", annotate("named@" + digest), "executor n/sa"},
		{"override-executing", "the set of an executor that one may act as", annotate(inline), ""},
		{
			"override-executing",
			"without the right",
			create(func(*v1alpha1.WorkOverrideSpec) {}),
			`cannot create resource "workoverrides"`,
		},
		{"override-writer", "no expression", create(func(s *v1alpha1.WorkOverrideSpec) {
			s.Values = []v1alpha1.OverrideValue{{Name: "A", Expression: ptr.To("1 +")}}
		}), "spec.values[0].expression (A): compilation failed"},
		{"override-writer", "two sources", create(func(s *v1alpha1.WorkOverrideSpec) {
			s.Values = []v1alpha1.OverrideValue{{Name: "A", Label: ptr.To("a"), Claim: ptr.To("b")}}
		}), "give one of label, claim and expression"},
		{"override-adding", "a template has its own", template(inline), ""},
		{"override-adding", "a template names one", template("named"), "has to be the spec of a WorkOverride as JSON"},
		{"override-adding", "what a template lacks", template(
			`{"overrides":[{"manifests":{"kind":"Deployment"},"type":"Merge","patch":{}}]}`),
			"spec.overrides[0].manifests: there is no such manifest (kind Deployment): the manifests are ConfigMap a"},
		{"override-writer", "a template", template(inline), "is forbidden"},
		{"override-writer", "the template of others", func(c client.Client) error {
			t := &addonv1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: "override-1"}}
			return c.Patch(ctx, t, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`)))
		}, "is forbidden"},
	} {
		t.Run(x.who+": "+x.what, func(t *testing.T) {
			err := x.do(clientFor(t, impersonate(x.who)))
			if x.refusal == "" && err != nil ||
				x.refusal != "" && (err == nil || !strings.Contains(err.Error(), x.refusal)) {
				t.Errorf("got %v, want %q", err, x.refusal)
			}
		})
	}
}
