package fleet_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// annotate sets an annotation of the set; "" removes it.
func (w *replicaSetWorld) annotate(key, value string) {
	w.Helper()
	w.change(func(s *v1alpha1.ManifestWorkReplicaSet) {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		if s.Annotations[key] = value; value == "" {
			delete(s.Annotations, key)
		}
	})
}

// approve approves a group for the present template, as admission notes it.
func (w *replicaSetWorld) approve(group string) {
	w.Helper()
	s := w.set()
	gates, err := rollout.ReadGates(s.Annotations)
	w.Must(err)
	w.annotate(muster.RolloutApprovalsAnnotation, gates.Approve(rollout.Approval{Group: group, By: "jo",
		Content: workdigest.Of(s.Spec.ManifestWorkTemplate), At: w.clock.Now()}))
}

// gate fails unless the condition GatesOpen has a reason, and its message a text.
func (w *replicaSetWorld) gate(reason, want string) {
	w.Helper()
	c := meta.FindStatusCondition(w.set().Status.Conditions, muster.ConditionGatesOpen)
	switch {
	case c == nil && reason == "":
	case c == nil || c.Reason != reason || !strings.Contains(c.Message, want):
		w.Errorf("the gate is %+v, want %s %q", c, reason, want)
	}
}

func TestARolloutStopsAtItsGates(t *testing.T) {
	w := newSet(t, "a b c", "0/canary:a 1/production:b 2/rest:c",
		clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressivePerGroup})
	w.annotate(muster.RolloutGatesAnnotation, `[{"group":"production"},{"group":"rest"}]`)
	w.reconcile()
	w.mustDeliver("a/p=1")
	w.gate(muster.ReasonNothingHeldBack, "no cluster waits")

	w.finish("a")
	w.mustDeliver("a/p=1")
	w.gate(muster.ReasonAwaitingApproval,
		"1 cluster waits for an approval of the group production (muster rollout approve ")
	w.restart()
	w.reconcile()
	w.mustDeliver("a/p=1")

	w.approve("production")
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
	w.gate(muster.ReasonNothingHeldBack, "approved: production by jo at ")
	w.reconcile() // an approval is said once
	said := 0
	for len(w.events.Events) > 0 {
		if e := <-w.events.Events; strings.Contains(e, "Normal RolloutApproved approved: production by jo at ") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("%d events say who has approved", said)
	}
	w.finish("b")
	w.mustDeliver("a/p=1 b/p=1")
	w.gate(muster.ReasonAwaitingApproval, "group rest")
	w.approve("rest")
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1 c/p=1")
	w.finish("c")

	// Other manifests need approvals of their own.
	w.version("2")
	w.reconcile()
	w.mustDeliver("a/p=2 b/p=1 c/p=1")
	w.finish("a")
	w.mustDeliver("a/p=2 b/p=1 c/p=1")
	w.gate(muster.ReasonAwaitingApproval, "group production")
	w.approve("*")
	w.reconcile()
	w.finish("b")
	w.mustDeliver("a/p=2 b/p=2 c/p=2")

	w.annotate(muster.RolloutGatesAnnotation, "")
	w.reconcile()
	w.gate("", "")
}

func TestARolloutWaitsForItsWindow(t *testing.T) {
	w := newSet(t, "a b", "0/canary:a 1/production:b")
	from := w.clock.Now().UTC().Truncate(time.Minute).Add(20 * time.Minute)
	w.annotate(muster.RolloutGatesAnnotation, `[{"group":"production","window":{"from":"`+from.Format("15:04")+
		`","to":"`+from.Add(10*time.Minute).Format("15:04")+`"}}]`)
	wait := from.Sub(w.clock.Now())
	if r := w.reconcile(); r.RequeueAfter != wait {
		t.Errorf("the set is looked at again after %s, want %s", r.RequeueAfter, wait)
	}
	w.mustDeliver("a/p=1")
	w.gate(muster.ReasonWaitingForWindow, "which opens at "+from.Format(time.RFC3339))
	w.step(wait)
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
	w.step(10 * time.Minute) // what was begun ends
	w.version("2")
	w.reconcile()
	w.mustDeliver("a/p=2 b/p=1")
}

func TestAPausedRolloutHandsOutNothing(t *testing.T) {
	w := newSet(t, "a b", "0:a,b", progressive("1"))
	w.reconcile()
	w.annotate(muster.RolloutPausedAnnotation, "true")
	w.finish("a")
	w.mustDeliver("a/p=1")
	w.gate(muster.ReasonPaused, "1 cluster waits as the rollout is paused")
	// Gates that nobody can read hold everything back.
	w.annotate(muster.RolloutPausedAnnotation, "")
	w.annotate(muster.RolloutGatesAnnotation, "production")
	w.reconcile()
	w.mustDeliver("a/p=1")
	w.gate(muster.ReasonGatesUnreadable, "which is no list of gates")
	w.annotate(muster.RolloutGatesAnnotation, "")
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
}
