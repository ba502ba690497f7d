package fleet_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

func TestEverySelectedClusterGetsAWork(t *testing.T) {
	w := newSet(t, "a b c", "0:a,b")
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
	mw := w.works()[0]
	if !strings.HasPrefix(mw.Name, "web") || len(mw.Name) != len("web")+5 || mw.GenerateName != "web" {
		t.Errorf("the work is named %q, generated from %q", mw.Name, mw.GenerateName)
	}
	if mw.Labels["team"] != "red" || len(mw.Labels) != 3 || len(mw.OwnerReferences) != 0 || len(mw.Annotations) != 0 || len(mw.Finalizers) != 0 {
		t.Errorf("the work's metadata is %+v", mw.ObjectMeta)
	}
	if set := w.set(); !slices.Equal(set.Finalizers, []string{work.ReplicaSetFinalizer}) {
		t.Errorf("the set's finalizers are %v", set.Finalizers)
	}
}

// The agent of muster, which is there, has one write less for such a work.
func TestWorksForAgentsOfMusterHaveTheirFinalizer(t *testing.T) {
	w := newSet(t, "a b", "0:a,b")
	w.Merge(w.cluster("a"), `{"metadata":{"annotations":{%q:"true"}}}`, muster.WorkPreviewsAnnotation)
	w.Report(w.cluster("a"), `{"status":{"conditions":[{"type":%q,"status":"True","reason":"Test","message":"",
		"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, cluster.ConditionAvailable)
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
	for _, mw := range w.works() {
		held := slices.Equal(mw.Finalizers, []string{work.ManifestWorkFinalizer})
		if held != (mw.Namespace == w.full("a")) {
			t.Errorf("the work in %s has the finalizers %q", mw.Namespace, mw.Finalizers)
		}
	}
	if n := w.writes.During(func() { w.reconcile() }); n != 0 {
		t.Errorf("%d more writes", n)
	}
}

func TestReplicaSetNothingIsWrittenWhenNothingChanged(t *testing.T) {
	w := newSet(t, "a b", "0:a,b")
	for _, x := range []struct {
		name   string
		change func()
	}{
		{"at first", func() {}},
		{"while works progress", func() { w.agents("a b", "Applied Progressing") }},
		{"once works are done", func() { w.agents("a b", "Available -Progressing") }},
		{"once a cluster is left", func() { w.place("p", "0:a") }},
	} {
		x.change()
		w.reconcile()
		w.step(time.Minute)
		if n := w.writes.During(func() { w.reconcile() }); n != 0 {
			t.Errorf("%s: %d writes", x.name, n)
		}
	}
}

// Whatever a template may hold comes back from the API as it was, so that a
// work is never taken for one of another template.
func TestARichTemplateIsRecognised(t *testing.T) {
	w := newSet(t, "a", "0:a")
	w.change(func(s *v1alpha1.ManifestWorkReplicaSet) {
		spec := &s.Spec.ManifestWorkTemplate
		spec.Workload.Manifests[0].Raw = []byte(`{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web","creationTimestamp":null},"spec":{"replicas":9007199254740993,"x":1.50,"template":{"metadata":{"creationTimestamp":null}},"l":[{},null]}}`)
		spec.DeleteOption = &workv1.DeleteOption{}
		spec.Executor = &workv1.ManifestWorkExecutor{}
		spec.Executor.Subject.Type = workv1.ExecutorSubjectTypeServiceAccount
		spec.Executor.Subject.ServiceAccount = &workv1.ManifestWorkSubjectServiceAccount{Namespace: "default", Name: "web"}
		spec.ManifestConfigs = []workv1.ManifestConfigOption{{
			ResourceIdentifier: workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Name: "web", Namespace: "default"},
			UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply, ServerSideApply: &workv1.ServerSideApplyConfig{}},
			FeedbackRules:      []workv1.FeedbackRule{{Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{{Name: "x", Path: ".x"}}}},
		}}
	})
	w.reconcile()
	mw := w.works()[0]
	w.reconcile()
	if again := w.works()[0]; again.ResourceVersion != mw.ResourceVersion || again.Generation != 1 {
		t.Errorf("the work was written again: generation %d, %+v", again.Generation, again.Spec)
	}
	w.mustReport("PlacementVerified:True/AsExpected PlacementRolledOut:False/Progressing ManifestworkApplied:False/NotAsExpected total:1 applied:0 available:0 progressing:0 degraded:0")
}

func TestAWorkThatSomebodyChangedIsMended(t *testing.T) {
	w := newSet(t, "a", "0:a")
	w.reconcile()
	mw := w.works()[0]
	mw.Spec = template("hand-made")
	mw.Annotations = map[string]string{"keep": "me"}
	w.Must(w.Update(context.Background(), &mw))
	w.reconcile()
	w.mustDeliver("a/p=1")
	if again := w.works()[0]; again.Name != mw.Name || again.Annotations["keep"] != "me" {
		t.Errorf("the work became %+v", again.ObjectMeta)
	}
}

func TestClustersComeAndGo(t *testing.T) {
	w := newSet(t, "a b c", "0:a,b")
	w.reconcile()
	w.place("p", "0:b,c")
	w.reconcile()
	w.mustDeliver("b/p=1 c/p=1")
	w.place("p", "")
	w.reconcile()
	w.mustDeliver("")
}

// Upstream leaves a work behind that has an older template when its cluster
// leaves.
func TestAWorkGoesWithItsClusterWhateverItHolds(t *testing.T) {
	w := newSet(t, "a b", "0:a,b", progressive("1"))
	w.reconcile()
	w.finish("a")
	w.mustDeliver("a/p=1 b/p=1")
	w.version("2")
	w.reconcile()
	w.mustDeliver("a/p=2 b/p=1")
	w.place("p", "0:a")
	w.reconcile()
	w.mustDeliver("a/p=2")
}

// A cluster that moves from one decision to another is in none for a moment.
func TestWorksStayWhileDecisionsAreRewritten(t *testing.T) {
	w := newSet(t, "a b", "0:a 0:b")
	w.reconcile()
	d := &clusterv1beta1.PlacementDecision{}
	w.Must(w.Get(context.Background(), client.ObjectKey{Namespace: w.name, Name: "p-decision-0"}, d))
	d.Status.Decisions = []clusterv1beta1.ClusterDecision{}
	w.Must(w.Status().Update(context.Background(), d))
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
	w.place("p", "0:b")
	w.reconcile()
	w.mustDeliver("b/p=1")
}

func TestPlacementsComeAndGo(t *testing.T) {
	w := newReplicaSetWorld(t, "a", "b")
	w.place("p", "0:a,b")
	w.place("q", "0:b")
	w.create(ref("p"), ref("q"))
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1 b/q=1")
	w.finish("a b")
	w.mustReport("PlacementVerified:True/AsExpected PlacementRolledOut:True/Complete ManifestworkApplied:True/AsExpected total:3 applied:3 available:3 progressing:0 degraded:0")

	w.change(func(s *v1alpha1.ManifestWorkReplicaSet) { s.Spec.PlacementRefs = s.Spec.PlacementRefs[1:] })
	w.reconcile()
	w.mustDeliver("b/q=1")

	mw := w.works()[0]
	delete(mw.Labels, work.PlacementNameLabel)
	w.Must(w.Update(context.Background(), &mw))
	w.reconcile()
	w.reconcile()
	if left := w.works(); len(left) != 1 || left[0].Name == mw.Name {
		t.Errorf("the works are %s, want one new one in place of that without a placement", w.delivered())
	}
}

func TestAPlacementThatIsNamedTwiceCountsOnce(t *testing.T) {
	w := newReplicaSetWorld(t, "a")
	w.place("p", "0:a")
	w.create(ref("p"), ref("p", progressive("1")))
	w.reconcile()
	w.mustDeliver("a/p=1")
	if n := len(w.set().Status.PlacementsSummary); n != 1 {
		t.Errorf("%d summaries of placements, want 1", n)
	}
}

func TestLabelsOfTheSetReachTheWorksWithTheTemplate(t *testing.T) {
	w := newSet(t, "a b", "0:a,b")
	w.reconcile()
	w.agents("b", done)
	w.change(func(s *v1alpha1.ManifestWorkReplicaSet) { s.Labels["team"] = "blue" })
	w.reconcile()
	if a, b := w.works()[0].Labels["team"], w.works()[1].Labels["team"]; a != "blue" || b != "red" {
		t.Errorf("the work that is yet to be applied is of team %s and the other of %s, want blue and red", a, b)
	}
	w.mustReport(underWay + "ManifestworkApplied:False/NotAsExpected total:2 applied:1 available:1 progressing:0 degraded:0")
	w.version("2")
	w.reconcile()
	if b := w.works()[1].Labels["team"]; b != "blue" {
		t.Errorf("the work with the new template is of team %s", b)
	}
}

// Somebody else's works are left alone.
func TestForeignWorksStay(t *testing.T) {
	w := newSet(t, "a", "0:a")
	foreign := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: w.full("a"), Name: "foreign", Labels: map[string]string{work.PlacementNameLabel: "gone"}}, Spec: template("foreign")}
	w.Make(foreign)
	w.reconcile()
	w.mustDeliver("a/p=1")
	w.Must(w.Get(context.Background(), client.ObjectKeyFromObject(foreign), foreign))
	if versionOf(t, *foreign) != "foreign" || foreign.Generation != 1 || foreign.DeletionTimestamp != nil {
		t.Errorf("the work became %+v", foreign)
	}
}

// A cluster that comes back before its agent has cleaned up gets its work when
// the old one is gone.
func TestAReturningClusterWaitsForItsOldWorkToGo(t *testing.T) {
	w := newSet(t, "a b c", "0:a,b", progressive("1"))
	w.reconcile()
	w.hold("a")
	w.finish("a")
	w.place("p", "0:b")
	w.reconcile()
	w.mustDeliver("a/p=1(going) b/p=1")
	w.agents("a b", done)
	w.place("p", "0:a,b,c")
	w.reconcile()
	w.mustDeliver("a/p=1(going) b/p=1") // the only place is a's
	w.mustReport("PlacementVerified:True/AsExpected PlacementRolledOut:False/Progressing ManifestworkApplied:True/AsExpected total:1 applied:1 available:1 progressing:0 degraded:0")
	w.version("2") // which what is going does not get
	w.reconcile()
	w.mustDeliver("a/p=1(going) b/p=1")
	old := w.works()[0]
	w.Release(&old)
	w.reconcile()
	w.mustDeliver("a/p=2 b/p=1")
}

// Another hub, or this one with a cache that was behind, may have made two.
func TestOfTwoWorksOfAClusterTheOlderStays(t *testing.T) {
	w := newSet(t, "a", "0:a")
	w.reconcile()
	first := w.works()[0]
	second := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: "zz", Labels: first.Labels}, Spec: first.Spec}
	w.Must(w.Create(context.Background(), second))
	w.reconcile()
	if left := w.works(); len(left) != 1 || left[0].Name != first.Name {
		t.Errorf("left are %+v, want %s", left, first.Name)
	}
}
