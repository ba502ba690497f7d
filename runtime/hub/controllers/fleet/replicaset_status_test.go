package fleet_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// message is that of one of the set's conditions.
func (w *replicaSetWorld) message(condition string) string {
	w.Helper()
	c := meta.FindStatusCondition(w.set().Status.Conditions, condition)
	if c == nil {
		w.Fatalf("there is no condition %s", condition)
	}
	return c.Message
}

func TestReports(t *testing.T) {
	const none = " total:0 applied:0 available:0 progressing:0 degraded:0"
	for name, x := range map[string]struct {
		groups     string // no placement at all if this is "-"
		conditions string // of a and b
		want       string
	}{
		"no placement": {"-", "",
			"PlacementVerified:False/PlacementDecisionNotFound PlacementRolledOut:False/Progressing ManifestworkApplied:False/NotAsExpected" + none},
		"no clusters": {"", "",
			"PlacementVerified:False/PlacementDecisionEmpty PlacementRolledOut:True/Complete ManifestworkApplied:False/PlacementDecisionEmpty" + none},
		"handed out": {"0:a,b", "",
			underWay + "ManifestworkApplied:False/NotAsExpected total:2 applied:0 available:0 progressing:0 degraded:0"},
		"not applied": {"0:a,b", "-Applied -Available",
			underWay + "ManifestworkApplied:False/NotAsExpected total:2 applied:0 available:0 progressing:0 degraded:0"},
		"progressing": {"0:a,b", "Applied Available Progressing",
			underWay + "ManifestworkApplied:False/Processing total:2 applied:2 available:2 progressing:2 degraded:0"},
		"progressing before anything is available": {"0:a,b", "Applied -Available Progressing",
			underWay + "ManifestworkApplied:False/Processing total:2 applied:2 available:0 progressing:2 degraded:0"},
		"degraded": {"0:a,b", "Applied Available Progressing Degraded",
			underWay + "ManifestworkApplied:False/NotAsExpected total:2 applied:2 available:2 progressing:2 degraded:2"},
		"unavailable": {"0:a,b", "Applied -Available -Progressing",
			"PlacementVerified:True/AsExpected PlacementRolledOut:True/Complete ManifestworkApplied:False/NotAsExpected total:2 applied:2 available:0 progressing:0 degraded:0"},
		"done, as a rule has it": {"0:a,b", "Applied Available -Progressing -Degraded",
			complete + "total:2 applied:2 available:2 progressing:0 degraded:0"},
		"done, without rules": {"0:a,b", "Applied Available",
			complete + "total:2 applied:2 available:2 progressing:0 degraded:0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicaSetWorld(t, "a", "b")
			if x.groups != "-" {
				w.place("p", x.groups)
			}
			w.create(ref("p"))
			w.reconcile()
			if x.groups == "0:a,b" {
				w.agents("a b", x.conditions)
				w.reconcile()
			}
			w.mustReport(x.want)
			for _, c := range w.set().Status.Conditions {
				if c.ObservedGeneration != 1 {
					t.Errorf("%s is of generation %d, want 1", c.Type, c.ObservedGeneration)
				}
			}
			s := w.set().Status.Summary
			if s.DesiredTotal != 0 || s.Updated != 0 {
				t.Errorf("the summary has what upstream's never has: %+v", s)
			}
		})
	}
}

// A condition that names no generation counts; one of an earlier template does not.
func TestSummariesAreOfTheTemplateAtHand(t *testing.T) {
	w := newSet(t, "a b", "0:a,b")
	w.reconcile()
	w.agents("a b", done)
	w.version("2")
	w.reconcile()
	w.mustReport(underWay + "ManifestworkApplied:False/NotAsExpected total:2 applied:0 available:0 progressing:0 degraded:0")
	for _, c := range w.set().Status.Conditions {
		if c.ObservedGeneration != 2 {
			t.Errorf("%s is of generation %d, want 2", c.Type, c.ObservedGeneration)
		}
	}
	mw := w.works()[0]
	for i := range mw.Status.Conditions {
		mw.Status.Conditions[i].ObservedGeneration = 0
	}
	w.Must(w.Status().Update(context.Background(), &mw))
	w.reconcile()
	w.mustReport(underWay + "ManifestworkApplied:False/NotAsExpected total:2 applied:1 available:1 progressing:0 degraded:0")
}

// Decisions come before the placement's own count, and leave before it, too.
func TestARolloutIsNotCompleteWhileThePlacementContradictsItself(t *testing.T) {
	w := newSet(t, "a b", "0:a")
	w.reconcile()
	w.agents("a", done)
	claims := func(n int32) {
		p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "p"}}
		w.Must(w.Get(context.Background(), client.ObjectKeyFromObject(p), p))
		p.Status.NumberOfSelectedClusters = n
		w.Must(w.Status().Update(context.Background(), p))
	}
	claims(2)
	w.reconcile()
	w.mustReport(underWay + "ManifestworkApplied:True/AsExpected total:1 applied:1 available:1 progressing:0 degraded:0")
	w.place("p", "0:a,b")
	claims(1)
	w.reconcile()
	w.mustReport(underWay + "ManifestworkApplied:False/NotAsExpected total:2 applied:1 available:1 progressing:0 degraded:0")
}

func TestAMissingPlacementStopsThoseAfterIt(t *testing.T) {
	w := newReplicaSetWorld(t, "a", "b")
	w.place("p", "0:a")
	w.place("r", "0:b")
	w.create(ref("p"), ref("q"), ref("r"))
	w.reconcile()
	w.mustDeliver("a/p=1")
	w.mustReport("PlacementVerified:False/PlacementDecisionNotFound PlacementRolledOut:False/Progressing ManifestworkApplied:False/NotAsExpected total:1 applied:0 available:0 progressing:0 degraded:0")
	if m := w.message(work.ConditionPlacementVerified); !strings.Contains(m, "no placement q") {
		t.Errorf("the message is %q", m)
	}
	w.place("q", "0:b")
	w.reconcile()
	w.mustDeliver("a/p=1 b/q=1 b/r=1")

	// When a placement goes, what it brought stays until the set is changed.
	w.Must(w.Delete(context.Background(), &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "q"}}))
	w.place("r", "")
	w.reconcile()
	w.mustDeliver("a/p=1 b/q=1 b/r=1")
}

// With a strategy that can't be gone by nobody gets anything new. Clusters that
// leave do not depend on it.
func TestABadStrategyIsReported(t *testing.T) {
	w := newReplicaSetWorld(t, "a", "b")
	w.place("p", "0:a,b")
	w.place("q", "0:b")
	w.create(ref("p"), ref("q"))
	w.reconcile()
	w.agents("a b", "Applied Available")
	w.change(func(s *v1alpha1.ManifestWorkReplicaSet) {
		s.Spec.PlacementRefs[0].RolloutStrategy = progressive("1", func(c *clusterv1alpha1.RolloutConfig) { c.MinSuccessTime = "5" })
		s.Spec.ManifestWorkTemplate = template("2")
	})
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1 b/q=2")
	w.place("p", "0:a")
	w.reconcile()
	w.mustDeliver("a/p=1 b/q=2")
	w.mustReport("PlacementVerified:False/NotAsExpected PlacementRolledOut:False/Progressing ManifestworkApplied:False/NotAsExpected total:1 applied:0 available:0 progressing:0 degraded:0")
	if m := w.message(work.ConditionPlacementVerified); !strings.Contains(m, `minSuccessTime "5"`) {
		t.Errorf("the message is %q", m)
	}
}

func TestDecisionsWithoutAGroupAreReported(t *testing.T) {
	w := newSet(t, "a b", "0:a 1:b")
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "p-decision-1"}}
	w.Must(w.Get(context.Background(), client.ObjectKeyFromObject(d), d))
	d.Labels[cluster.DecisionGroupIndexLabel] = "one"
	w.Must(w.Update(context.Background(), d))
	w.reconcile()
	w.mustDeliver("")
	w.mustReport("PlacementVerified:False/NotAsExpected PlacementRolledOut:False/Progressing ManifestworkApplied:False/NotAsExpected total:0 applied:0 available:0 progressing:0 degraded:0")
	if m := w.message(work.ConditionPlacementVerified); !strings.Contains(m, `p-decision-1 is "one"`) {
		t.Errorf("the message is %q", m)
	}
}

// One cluster that can't be written to holds up neither the others nor the
// report, and is tried again.
func TestWritesThatFailAreReported(t *testing.T) {
	w := newReplicaSetWorld(t, "b")
	w.accepted("a", w.name)
	w.place("p", "0:a,b")
	w.create(ref("p"))
	for range 2 {
		if _, err := w.pass(); err == nil || !strings.Contains(err.Error(), "create the work of the cluster "+w.full("a")) {
			t.Fatalf("the error is %v", err)
		}
		w.mustDeliver("b/p=1")
		w.mustReport(underWay + "ManifestworkApplied:False/NotAsExpected total:1 applied:0 available:0 progressing:0 degraded:0")
		if m := w.message(work.ConditionManifestworkApplied); !strings.Contains(m, w.full("a")) {
			t.Errorf("the message is %q", m)
		}
	}
	w.place("p", "0:a")
	if _, err := w.pass(); err == nil {
		t.Error("no error")
	}
	w.mustReport("PlacementVerified:False/NotAsExpected PlacementRolledOut:False/Progressing ManifestworkApplied:False/NotAsExpected total:0 applied:0 available:0 progressing:0 degraded:0")
	w.place("p", "")
	w.reconcile()
	if m := w.message(work.ConditionManifestworkApplied); m != "" {
		t.Errorf("the message is still %q", m)
	}
}

func TestAlikeErrorsAreReportedOnce(t *testing.T) {
	w := newReplicaSetWorld(t)
	const names = "a,b,c,d,e,f,g,h,i,j,k,l,m,n"
	for name := range strings.SplitSeq(names, ",") {
		w.accepted(name, w.name)
	}
	w.place("p", "0:"+names)
	w.create(ref("p"))
	_, err := w.pass()
	if err == nil || strings.Count(err.Error(), "create the work") != 3 || !strings.Contains(err.Error(), "and 11 more") {
		t.Errorf("the error is %v", err)
	}
}

func TestNamesThatCantBeLabels(t *testing.T) {
	w := newReplicaSetWorld(t, "a")
	w.place("p", "0:a")
	ctx := context.Background()
	set := &v1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: strings.Repeat("long", 15)}}
	set.Spec.PlacementRefs, set.Spec.ManifestWorkTemplate = []v1alpha1.LocalPlacementReference{ref("p")}, template("1")
	w.Make(set)
	pass := func() {
		t.Helper()
		_, err := w.controller.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		w.Must(err)
	}
	pass()
	w.Must(w.Get(ctx, client.ObjectKeyFromObject(set), set))
	c := meta.FindStatusCondition(set.Status.Conditions, work.ConditionManifestworkApplied)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != work.ReasonInvalidManifestWorkName || !strings.Contains(c.Message, "no more than 63") || len(set.Status.Conditions) != 1 {
		t.Errorf("the conditions are %+v", set.Status.Conditions)
	}
	if n := w.writes.During(pass); n != 0 {
		t.Errorf("%d writes in a second pass", n)
	}
	w.Must(w.Delete(ctx, set))
	pass()
	if err := w.Get(ctx, client.ObjectKeyFromObject(set), set); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the set is not gone: %v", err)
	}
}
