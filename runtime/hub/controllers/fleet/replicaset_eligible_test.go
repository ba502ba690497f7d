package fleet_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/replicaset"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
)

func (w *replicaSetWorld) mustExplain(words ...string) {
	w.Helper()
	c := meta.FindStatusCondition(w.set().Status.Conditions, work.ConditionPlacementVerified)
	for _, text := range words {
		if c == nil || !strings.Contains(c.Message, text) {
			w.Errorf("the condition %s is %+v, want a message with %q", work.ConditionPlacementVerified, c, text)
		}
	}
}

// Others than the scheduler may have the right to write decisions. What they
// name counts only when the placement could have chosen it.
func TestDecisionsAreBelievedAsFarAsThePlacementCouldChoose(t *testing.T) {
	w := newReplicaSetWorld(t, "a")
	w.Make(&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: w.full("other")}})
	w.member("stranger", w.full("other"))
	w.Make(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.full("nocluster")}})
	denied := w.member("denied", w.name)
	before := denied.DeepCopy()
	denied.Spec.HubAcceptsClient = nil
	w.Must(w.Patch(context.Background(), denied, client.MergeFrom(before)))

	w.place("p", "0:a,stranger,nocluster,denied,gone")
	w.create(ref("p"))
	w.reconcile()
	w.mustDeliver("a/p=1")
	w.mustExplain(w.full("stranger")+", "+w.full("nocluster")+", "+w.full("gone")+": not in a cluster set that is bound to the namespace "+w.name, w.full("denied")+": not accepted by the hub")
	if got := <-w.events.Events; !strings.Contains(got, "Warning "+cluster.EventClustersNotSelected) || !strings.Contains(got, w.full("stranger")) {
		t.Errorf("the event is %q", got)
	}
	w.agents("a", "Applied Available")
	w.reconcile()
	if n := len(w.events.Events); n > 0 {
		t.Errorf("%d more events, want one for each change", n)
	}
	if c := meta.FindStatusCondition(w.set().Status.Conditions, work.ConditionPlacementRolledOut); c.Status != metav1.ConditionFalse {
		t.Errorf("with selected clusters that have no work it is rolled out: %+v", c)
	}
}

// Where the rule is off, as with upstream's hub, names in decisions count without any
// set. The hub's own names, and clusters that it denies, stay out.
func TestWithoutTheRuleDecisionsAloneCount(t *testing.T) {
	w := newReplicaSetWorld(t, "a")
	w.controller = replicaset.NewController(w.counting, w.counting, w.events, w.clock, replicaset.Options{Rule: selection.AnyCluster})
	w.member("stranger", "")
	w.Make(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.full("nocluster")}})
	denied := w.member("denied", "")
	denied.Spec.HubAcceptsClient = nil
	w.Must(w.Update(context.Background(), denied))
	w.place("p", "0:a,stranger,nocluster,denied")
	w.create(ref("p"))
	w.reconcile()
	w.mustDeliver("a/p=1 nocluster/p=1 stranger/p=1")
	w.mustExplain(w.full("denied") + ": not accepted by the hub")
}

// A binding that goes takes the works with it, whatever the decisions say.
func TestWithoutABindingNothingIsChosen(t *testing.T) {
	w := newSet(t, "a", "0:a")
	w.reconcile()
	w.mustDeliver("a/p=1")
	w.Must(w.Delete(context.Background(), &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: w.name}}))
	w.reconcile()
	w.mustDeliver("")
}

// A placement that names sets chooses from no others, though they be bound.
func TestPlacementsChooseFromTheSetsThatTheyName(t *testing.T) {
	w := newReplicaSetWorld(t, "a")
	w.Make(&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: w.full("blue")}})
	w.Make(&clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: w.full("blue")}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: w.full("blue")}})
	w.member("b", w.full("blue"))
	w.place("p", "0:a,b")
	p := &clusterv1beta1.Placement{}
	w.Must(w.Get(context.Background(), types.NamespacedName{Namespace: w.name, Name: "p"}, p))
	p.Spec.ClusterSets = []string{w.full("blue")}
	w.Must(w.Update(context.Background(), p))
	w.create(ref("p"))
	w.reconcile()
	w.mustDeliver("b/p=1")
}

// A cluster that is denied keeps its work as it is, and goes on when it is
// accepted again.
func TestDeniedClustersKeepWhatTheyHave(t *testing.T) {
	w := newSet(t, "a b", "0:a,b")
	w.run()
	w.untilDelivered("a/p=1 b/p=1")
	accept := func(accepted string) {
		t.Helper()
		mc := w.cluster("b")
		w.Must(w.Patch(context.Background(), mc, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hubAcceptsClient":`+accepted+`}}`))))
	}
	accept("false")
	w.version("2")
	w.untilDelivered("a/p=2 b/p=1")
	accept("true")
	w.untilDelivered("a/p=2 b/p=2")
}

// externally has another scheduler decide for a placement, by groups as in place.
// Nobody keeps the placement's status then.
func (w *replicaSetWorld) externally(name, groups string) {
	w.Helper()
	w.place(name, groups)
	p := &clusterv1beta1.Placement{}
	w.Must(w.Get(context.Background(), types.NamespacedName{Namespace: w.name, Name: name}, p))
	p.Annotations = map[string]string{cluster.SchedulingDisabledAnnotation: "true"}
	w.Must(w.Update(context.Background(), p))
	p.Status = clusterv1beta1.PlacementStatus{}
	w.Must(w.Status().Update(context.Background(), p))
}

// Schedulers of others write decisions and nothing else. Removals count as well.
func TestSchedulersOfOthers(t *testing.T) {
	w := newReplicaSetWorld(t, "a", "b")
	w.externally("p", "0:a,b")
	w.create(ref("p"))
	w.run()
	w.untilDelivered("a/p=1 b/p=1")
	w.agents("a b", "Applied Available")
	w.untilReported(complete + "total:2 applied:2 available:2 progressing:0 degraded:0")
	if s := w.set().Status.PlacementsSummary; len(s) != 1 || s[0].AvailableDecisionGroups != "1 (2 / 2 clusters applied)" {
		t.Errorf("the summary is %+v", s)
	}
	w.externally("p", "0:a")
	w.untilDelivered("a/p=1")

	// It may choose before the cluster is one of a bound set: its work comes then,
	// and goes when it leaves the set.
	c := w.member("c", "elsewhere")
	w.externally("p", "0:a,c")
	w.untilDelivered("a/p=1")
	move := func(set string) {
		t.Helper()
		w.Must(w.Patch(context.Background(), c, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+cluster.ClusterSetLabel+`":"`+set+`"}}}`))))
	}
	move(w.name)
	w.untilDelivered("a/p=1 c/p=1")
	move("elsewhere")
	w.untilDelivered("a/p=1")
	binding := &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: w.name}}
	w.Must(w.Delete(context.Background(), binding))
	w.untilDelivered("")
	binding = &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: w.name}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: w.name}}
	w.Must(w.Create(context.Background(), binding))
	w.untilDelivered("a/p=1")
}

// Its decisions need no group.
func TestSchedulersOfOthersNeedNoGroups(t *testing.T) {
	w := newReplicaSetWorld(t, "a")
	w.externally("p", "0:a")
	d := &clusterv1beta1.PlacementDecision{}
	w.Must(w.Get(context.Background(), types.NamespacedName{Namespace: w.name, Name: "p-decision-0"}, d))
	d.Labels = map[string]string{cluster.PlacementLabel: "p"}
	w.Must(w.Update(context.Background(), d))
	w.create(ref("p"))
	w.reconcile()
	w.mustDeliver("a/p=1")
}
