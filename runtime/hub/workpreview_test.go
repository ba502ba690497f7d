package hub_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// A preview says what is in a cluster, as far as the work could find out: so it takes the
// rights of the work.
func TestPreviewsTakeTheRightsOfTheWork(t *testing.T) {
	ctx, c := context.Background(), clientFor(t, admin)
	joined(t, "previewed", "a")
	there := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "previewed", Name: "there"}}
	there.Spec.Workload.Manifests = []workv1.Manifest{configMapManifest("a")}
	testkit.Must(t, c.Create(ctx, there))
	clouds := there.DeepCopy()
	clouds.Name, clouds.ResourceVersion = "clouds", ""
	clouds.Labels = map[string]string{muster.LogicalCloudLabel: "x"}
	clouds.Annotations = map[string]string{muster.LogicalCloudAnnotation: "shop/prod"}
	testkit.Must(t, c.Create(ctx, clouds))

	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	previews := rule(muster.GroupName, "workpreviews", "create", "get", "update")
	statuses := rule(muster.GroupName, "workpreviews/status", "update")
	works := func(verbs ...string) rbacv1.PolicyRule {
		return rule("work.open-cluster-management.io", "manifestworks", verbs...)
	}
	grant(t, "previewer", previews, statuses, rule("cluster.open-cluster-management.io", "managedclusters", "list"))
	grant(
		t,
		"work-creator",
		previews,
		works("create"),
		rule("cluster.open-cluster-management.io", "managedclusters", "list"),
	)
	grant(
		t,
		"work-changer",
		previews,
		works("patch"),
		rule("cluster.open-cluster-management.io", "managedclusters", "list"),
	)
	grant(
		t,
		"work-deleter",
		previews,
		works("delete"),
		rule("cluster.open-cluster-management.io", "managedclusters", "list"),
	)
	grant(
		t,
		"work-writer",
		works("create", "update"),
		rule("cluster.open-cluster-management.io", "managedclusters", "list"),
	)
	grant(
		t,
		"executing",
		previews,
		works("create", "execute-as"),
		rule("cluster.open-cluster-management.io", "managedclusters", "list"),
	)

	n := 0
	preview := func(work string, change func(*v1alpha1.WorkPreviewSpec)) func(client.Client) error {
		return func(c client.Client) error {
			n++
			p := &v1alpha1.WorkPreview{ObjectMeta: metav1.ObjectMeta{Namespace: "previewed", Name: fmt.Sprint("p", n)}}
			p.Spec = v1alpha1.WorkPreviewSpec{WorkName: work, Work: &workv1.ManifestWorkSpec{}}
			p.Spec.Work.Workload.Manifests = []workv1.Manifest{configMapManifest("a")}
			if change != nil {
				change(&p.Spec)
			}
			return c.Create(ctx, p)
		}
	}
	deletes := func(s *v1alpha1.WorkPreviewSpec) { s.Work = nil }
	executed := func(s *v1alpha1.WorkPreviewSpec) {
		s.Work.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
			Type:           workv1.ExecutorSubjectTypeServiceAccount,
			ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "n", Name: "sa"},
		}}
	}
	for _, x := range []struct {
		who, what string
		do        func(client.Client) error
		refusal   string
	}{
		{"previewer", "a new work", preview("new", nil), "previewer may not create the ManifestWork new in the " +
			"namespace previewed"},
		{"previewer", "a work that there is", preview("there", nil), "may not update or patch the ManifestWork there"},
		{"previewer", "a deletion", preview("there", deletes), "may not delete the ManifestWork there"},
		{"work-creator", "a new work", preview("new", nil), ""},
		{"work-creator", "a work that there is", preview("there", nil), "may not update or patch the " +
			"ManifestWork there"},
		{"work-creator", "as an account", preview("new", executed), "cannot manipulate the Manifestwork with " +
			"executor n/sa"},
		{"executing", "as an account", preview("new", executed), ""},
		{"work-changer", "a new work", preview("new", nil), "may not create the ManifestWork new"},
		{"work-changer", "a work that there is", preview("there", nil), ""},
		{"work-changer", "the work of a cloud", preview("clouds", nil), "for the LogicalCloud shop/prod, and " +
			"can't be previewed"},
		{"work-changer", "a deletion", preview("there", deletes), "may not delete the ManifestWork there"},
		{"work-deleter", "a deletion", preview("there", deletes), ""},
		{"work-writer", "a new work", preview("new", nil), `cannot create resource "workpreviews"`},
		{"work-creator", "no manifests", preview("new",
			func(s *v1alpha1.WorkPreviewSpec) { s.Work.Workload.Manifests = nil }), "manifests should not be empty"},
		{"work-creator", "a bad name", preview("No Name", nil), `spec.workName: "No Name" can't be the name of a work`},
		{"work-creator", "an object without a name", preview("new", func(s *v1alpha1.WorkPreviewSpec) {
			s.Work.Workload.Manifests[0].Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`)
		}), "metadata.name is missing"},
	} {
		t.Run(x.who+" previews "+x.what, func(t *testing.T) {
			err := x.do(clientFor(t, impersonate(x.who)))
			if x.refusal == "" && err != nil ||
				x.refusal != "" && (err == nil || !strings.Contains(err.Error(), x.refusal)) {
				t.Errorf("got %v, want %q", err, x.refusal)
			}
		})
	}
	t.Run("a preview stays as it is", func(t *testing.T) {
		p := &v1alpha1.WorkPreview{ObjectMeta: metav1.ObjectMeta{Namespace: "previewed", Name: "stays"}}
		p.Spec = v1alpha1.WorkPreviewSpec{WorkName: "there"}
		testkit.Must(t, c.Create(ctx, p))
		p.Spec.WorkName = "clouds"
		if err := clientFor(t, impersonate("previewer")).Update(ctx, p); !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), "can't be changed") {
			t.Errorf("got %v, want a refusal", err)
		}
		testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(p), p))
		for range 600 {
			p.Status.Objects = append(
				p.Status.Objects,
				v1alpha1.ObjectPreview{Outcome: v1alpha1.PreviewCreate, Message: strings.Repeat("x", 1000)},
			)
		}
		if err := clientFor(t, impersonate("previewer")).Status().Update(ctx, p); err == nil ||
			!strings.Contains(err.Error(), "and may have") {
			t.Errorf("a large answer: %v", err)
		}
	})
}

// Agents answer in their own namespace, and change nothing but the answer.
func TestAgentsAnswerPreviews(t *testing.T) {
	ctx, c := context.Background(), clientFor(t, admin)
	agent, other := clientFor(t, joined(t, "answers", "a")), clientFor(t, joined(t, "answers-other", "a"))
	p := &v1alpha1.WorkPreview{ObjectMeta: metav1.ObjectMeta{Namespace: "answers", Name: "p"}}
	p.Spec = v1alpha1.WorkPreviewSpec{WorkName: "w"}
	testkit.Must(t, c.Create(ctx, p))
	for _, denied := range []error{
		other.Get(ctx, client.ObjectKeyFromObject(p), p.DeepCopy()),
		other.Status().Update(ctx, p.DeepCopy()),
		agent.Delete(ctx, p.DeepCopy()),
		agent.Update(ctx, p.DeepCopy()),
		agent.Create(ctx, &v1alpha1.WorkPreview{ObjectMeta: metav1.ObjectMeta{Namespace: "answers", Name: "own"},
			Spec: p.Spec}),
		agent.List(ctx, &v1alpha1.WorkPreviewList{}),
	} {
		if !apierrors.IsForbidden(denied) {
			t.Errorf("got %v, want a refusal", denied)
		}
	}
	testkit.Must(t, agent.Get(ctx, client.ObjectKeyFromObject(p), p))
	p.Status.MoreObjects = 1
	testkit.Must(t, agent.Status().Update(ctx, p))
}
