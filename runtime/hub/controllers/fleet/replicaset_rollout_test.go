package fleet_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/replicaset"
)

func progressive(concurrency string, change ...func(*clusterv1alpha1.RolloutConfig)) clusterv1alpha1.RolloutStrategy {
	p := &clusterv1alpha1.RolloutProgressive{MaxConcurrency: intstr.Parse(concurrency)}
	for _, f := range change {
		f(&p.RolloutConfig)
	}
	return clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressive, Progressive: p}
}

const (
	underWay = "PlacementVerified:True/AsExpected PlacementRolledOut:False/Progressing "
	complete = "PlacementVerified:True/AsExpected PlacementRolledOut:True/Complete ManifestworkApplied:True/AsExpected "
)

func TestProgressiveRolloutStepByStep(t *testing.T) {
	w := newSet(t, "a b c", "0:a,b,c", progressive("2"))
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
	w.mustReport(underWay + "ManifestworkApplied:False/NotAsExpected total:2 applied:0 available:0 progressing:0 degraded:0")

	w.agents("b", "Applied Available Progressing")
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
	w.mustReport(underWay + "ManifestworkApplied:False/Processing total:2 applied:1 available:1 progressing:1 degraded:0")

	w.agents("b", "-Progressing")
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1 c/p=1")

	w.finish("a c")
	w.mustReport(complete + "total:3 applied:3 available:3 progressing:0 degraded:0")

	w.version("2")
	w.reconcile()
	w.mustDeliver("a/p=2 b/p=2 c/p=1")
	w.mustReport(underWay + "ManifestworkApplied:False/NotAsExpected total:2 applied:0 available:0 progressing:0 degraded:0")
	w.finish("a b")
	w.mustDeliver("a/p=2 b/p=2 c/p=2")
	w.finish("c")
	w.mustReport(complete + "total:3 applied:3 available:3 progressing:0 degraded:0")
}

func TestRolloutGroupByGroup(t *testing.T) {
	w := newReplicaSetWorld(t, "a", "b", "c", "d")
	w.place("p", "0:c,d 1/rest:a 2:b")
	w.create(ref("p", clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressivePerGroup, ProgressivePerGroup: &clusterv1alpha1.RolloutProgressivePerGroup{
		MandatoryDecisionGroups: clusterv1alpha1.MandatoryDecisionGroups{MandatoryDecisionGroups: []clusterv1alpha1.MandatoryDecisionGroup{{GroupName: "rest"}}}}}))
	w.reconcile()
	w.mustDeliver("a/p=1")
	w.finish("a")
	w.mustDeliver("a/p=1 c/p=1 d/p=1")
	w.finish("c")
	w.mustDeliver("a/p=1 c/p=1 d/p=1")
	w.finish("d")
	w.mustDeliver("a/p=1 b/p=1 c/p=1 d/p=1")
	if got, want := w.set().Status.PlacementsSummary[0].AvailableDecisionGroups, "3 (4 / 4 clusters applied)"; got != want {
		t.Errorf("the decision groups are %q, want %q", got, want)
	}
}

func TestFailuresStopARollout(t *testing.T) {
	w := newSet(t, "a b c", "0:a,b,c", progressive("1", func(c *clusterv1alpha1.RolloutConfig) {
		c.ProgressDeadline, c.MaxFailures = "5m", intstr.FromInt32(1)
	}))
	w.reconcile()
	w.agents("a", "Applied Available Progressing Degraded")
	if r := w.reconcile(); r.RequeueAfter != 5*time.Minute {
		t.Errorf("the set is looked at again after %s, want 5m", r.RequeueAfter)
	}
	w.mustDeliver("a/p=1")
	w.mustReport(underWay + "ManifestworkApplied:False/NotAsExpected total:1 applied:1 available:1 progressing:1 degraded:1")

	w.step(5 * time.Minute) // a is given up, which is tolerated once
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")

	w.agents("b", "Applied Available Progressing Degraded")
	w.step(5 * time.Minute)
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
	w.agents("b", "-Degraded -Progressing") // it recovers
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1 c/p=1")
}

func TestAClusterThatIsStuckTimesOut(t *testing.T) {
	w := newSet(t, "a b", "0:a,b", progressive("1", func(c *clusterv1alpha1.RolloutConfig) {
		c.ProgressDeadline, c.MaxFailures = "2h", intstr.FromInt32(1)
	}))
	w.reconcile()
	w.agents("a", "Applied -Available")
	w.step(time.Hour)
	if r := w.reconcile(); r.RequeueAfter != 30*time.Minute {
		t.Errorf("the set is looked at again after %s, want 30m, which is the longest", r.RequeueAfter)
	}
	w.step(45 * time.Minute)
	if r := w.reconcile(); r.RequeueAfter != 15*time.Minute {
		t.Errorf("the set is looked at again after %s, want 15m", r.RequeueAfter)
	}
	w.mustDeliver("a/p=1")
	w.step(15 * time.Minute)
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
}

func TestClustersSoak(t *testing.T) {
	w := newSet(t, "a b", "0:a,b", progressive("1", func(c *clusterv1alpha1.RolloutConfig) { c.MinSuccessTime = "10m" }))
	w.reconcile()
	w.agents("a", done)
	w.step(4 * time.Minute)
	if r := w.reconcile(); r.RequeueAfter != 6*time.Minute {
		t.Errorf("the set is looked at again after %s, want 6m", r.RequeueAfter)
	}
	w.mustDeliver("a/p=1")
	w.step(6 * time.Minute)
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
}

func TestAPlacementChangesMidRollout(t *testing.T) {
	w := newSet(t, "a b c d", "0:b,c,d", progressive("2"))
	w.reconcile()
	w.mustDeliver("b/p=1 c/p=1")
	w.agents("b", "Applied Progressing")

	// c leaves while it is busy, and its place is free. a comes and is first.
	w.place("p", "0:a,b,d")
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
	w.mustReport(underWay + "ManifestworkApplied:False/Processing total:2 applied:1 available:0 progressing:1 degraded:0")
	if got, want := w.set().Status.PlacementsSummary[0].AvailableDecisionGroups, "1 (2 / 3 clusters applied)"; got != want {
		t.Errorf("the decision groups are %q, want %q", got, want)
	}

	w.agents("a b", done)
	w.place("p", "0:a,b") // what was missing leaves
	w.reconcile()
	w.mustReport(complete + "total:2 applied:2 available:2 progressing:0 degraded:0")
}

// Nothing is remembered, so a restart changes nothing.
func TestAHubRestartsMidRollout(t *testing.T) {
	w := newSet(t, "a b c", "0:a,b,c", progressive("1", func(c *clusterv1alpha1.RolloutConfig) { c.MinSuccessTime = "10m" }))
	w.reconcile()
	w.agents("a", done)
	w.step(4 * time.Minute)
	w.restart()
	if r := w.reconcile(); r.RequeueAfter != 6*time.Minute {
		t.Errorf("the set is looked at again after %s, want 6m", r.RequeueAfter)
	}
	w.mustDeliver("a/p=1")
	w.step(6 * time.Minute)
	w.restart()
	w.reconcile()
	w.restart()
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
}

func TestEachPlacementHasItsOwnRollout(t *testing.T) {
	w := newReplicaSetWorld(t, "a", "b", "c")
	w.place("p", "0:a,b")
	w.place("q", "0:b,c")
	w.create(ref("p", progressive("1")), ref("q", progressive("1")))
	w.reconcile()
	w.mustDeliver("a/p=1 b/q=1")
	w.finish("a")
	w.mustDeliver("a/p=1 b/p=1 b/q=1")
	s := w.set().Status.PlacementsSummary
	if len(s) != 2 || s[0].Name != "p" || s[0].Summary.Total != 2 || s[0].Summary.Available != 1 || s[1].Name != "q" || s[1].Summary.Total != 1 {
		t.Errorf("the summaries are %+v", s)
	}
}

func TestWorksWithoutProgressing(t *testing.T) {
	for name, x := range map[string]struct {
		needsProgressing bool
		conditions       string
		want             string
	}{
		"nothing reported":              {false, "", "a/p=1"},
		"not applied":                   {false, "-Applied Available", "a/p=1"},
		"applied only":                  {false, "Applied", "a/p=1"},
		"not available":                 {false, "Applied -Available", "a/p=1"},
		"applied and available":         {false, "Applied Available", "a/p=1 b/p=1"},
		"degraded":                      {false, "Applied Available Degraded", "a/p=1"},
		"of unknown progress":           {false, "Applied Available ?Progressing", "a/p=1"},
		"as upstream":                   {true, "Applied Available", "a/p=1"},
		"as upstream, with Progressing": {true, "Applied Available -Progressing", "a/p=1 b/p=1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicaSetWorld(t, "a", "b")
			w.controller = replicaset.NewController(w.counting, w.counting, w.events, w.clock, replicaset.Options{NeedsProgressing: x.needsProgressing})
			w.place("p", "0:a,b")
			w.create(ref("p", progressive("1")))
			w.reconcile()
			w.agents("a", x.conditions)
			w.reconcile()
			w.mustDeliver(x.want)
		})
	}
}

// Only conditions of the template's own generation tell how far it is.
func TestConditionsOfAnEarlierTemplateSayNothing(t *testing.T) {
	for name, x := range map[string]struct{ before, after string }{
		"Applied":     {"Applied Available -Progressing", "Available -Progressing"},
		"Progressing": {"Applied Available -Progressing", "Applied Available"},
		"Degraded":    {"Applied Available -Progressing -Degraded", "Applied Available -Progressing"},
		"Available":   {"Applied Available", "Applied"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSet(t, "a b", "0:a,b", progressive("1"))
			w.reconcile()
			w.agents("a", x.before)
			w.version("2")
			w.reconcile()
			w.mustDeliver("a/p=2")
			w.agents("a", x.after)
			w.reconcile()
			w.mustDeliver("a/p=2")
			w.agents("a", x.before)
			w.reconcile()
			w.mustDeliver("a/p=2 b/p=2")
		})
	}
}
