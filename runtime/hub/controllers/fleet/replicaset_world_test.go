package fleet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/replicaset"
)

// world is one namespace with the set "web", which delivers a config map with a
// version, and some clusters. The tests play the placement controller and the
// agents. The controller runs only when it is told to.
type replicaSetWorld struct {
	*testworld.World
	clock *clocktesting.FakePassiveClock
	// writes counts the controller's.
	writes *testkit.Writes
	name   string

	controller *replicaset.Controller
	events     *events.FakeRecorder
	// counting is the controller's client.
	counting client.Client
}

func newReplicaSetWorld(t testing.TB, clusters ...string) *replicaSetWorld {
	t.Helper()
	w := &replicaSetWorld{World: env.World(t), clock: clocktesting.NewFakePassiveClock(noon), events: events.NewFakeRecorder(100)}
	w.counting, w.writes = env.Counting(t)
	w.restart()
	w.name = w.BoundSet()
	for _, c := range clusters {
		w.member(c, w.name)
	}
	return w
}

// newSet is a world with clusters, written as in "a b", and the set, which a
// placement "p" puts on groups of them by a strategy, All if there is none.
func newSet(t testing.TB, clusters, groups string, strategy ...clusterv1alpha1.RolloutStrategy) *replicaSetWorld {
	t.Helper()
	w := newReplicaSetWorld(t, strings.Fields(clusters)...)
	w.place("p", groups)
	w.create(ref("p", strategy...))
	return w
}

// member makes an accepted cluster in a cluster set, and its namespace.
func (w *replicaSetWorld) member(name, set string) *clusterv1.ManagedCluster {
	w.Helper()
	w.Make(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.full(name)}})
	return w.accepted(name, set)
}

// accepted makes an accepted cluster whose namespace is not there yet.
func (w *replicaSetWorld) accepted(name, set string) *clusterv1.ManagedCluster {
	w.Helper()
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: w.full(name), Labels: map[string]string{cluster.ClusterSetLabel: set}},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)},
	}
	w.Make(mc)
	return mc
}

// restart replaces the controller, as a restart of the hub does.
func (w *replicaSetWorld) restart() {
	w.controller = replicaset.NewController(w.counting, w.counting, w.events, w.clock, replicaset.Options{})
}

// full is the name of a cluster, and of its namespace.
func (w *replicaSetWorld) full(cluster string) string { return w.name + "-" + cluster }

// cluster is a cluster as it is on the hub.
func (w *replicaSetWorld) cluster(name string) *clusterv1.ManagedCluster {
	w.Helper()
	mc := &clusterv1.ManagedCluster{}
	w.Must(w.Get(context.Background(), types.NamespacedName{Name: w.full(name)}, mc))
	return mc
}

func (w *replicaSetWorld) key() types.NamespacedName {
	return types.NamespacedName{Namespace: w.name, Name: "web"}
}

// place has a placement select clusters, by groups as in "0:a,b 1/canary:c". It
// creates the placement, too.
func (w *replicaSetWorld) place(name, groups string) {
	w.Helper()
	ctx := context.Background()
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	if err := w.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
		w.Must(w.Create(ctx, p))
	}
	w.Must(w.DeleteAllOf(ctx, &clusterv1beta1.PlacementDecision{}, client.InNamespace(w.name), client.MatchingLabels{cluster.PlacementLabel: name}))
	p.Status = clusterv1beta1.PlacementStatus{}
	for i, field := range strings.Fields(groups) {
		group, clusters, _ := strings.Cut(field, ":")
		index, groupName, _ := strings.Cut(group, "/")
		d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: fmt.Sprintf("%s-decision-%d", name, i), Labels: map[string]string{
			cluster.PlacementLabel: name, cluster.DecisionGroupIndexLabel: index, cluster.DecisionGroupNameLabel: groupName}}}
		w.Must(w.Create(ctx, d))
		d.Status.Decisions = []clusterv1beta1.ClusterDecision{}
		for c := range strings.SplitSeq(clusters, ",") {
			d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: w.full(c)})
			p.Status.NumberOfSelectedClusters++
		}
		w.Must(w.Status().Update(ctx, d))
		p.Status.DecisionGroups = append(p.Status.DecisionGroups, clusterv1beta1.DecisionGroupStatus{DecisionGroupIndex: int32(i), Decisions: []string{d.Name}})
	}
	w.Must(w.Status().Update(ctx, p))
}

// ref names a placement and a strategy, which is All if there is none.
func ref(placement string, strategy ...clusterv1alpha1.RolloutStrategy) v1alpha1.LocalPlacementReference {
	r := v1alpha1.LocalPlacementReference{Name: placement}
	for _, s := range strategy {
		r.RolloutStrategy = s
	}
	return r
}

// template is what the set delivers.
func template(version string) workv1.ManifestWorkSpec {
	manifest := `{"metadata":{"name":"web","namespace":"default","creationTimestamp":null},"kind":"ConfigMap","apiVersion":"v1","data":{"version":"` + version + `"}}`
	return workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(manifest)}}}}}
}

// create makes the set, with version 1.
func (w *replicaSetWorld) create(refs ...v1alpha1.LocalPlacementReference) {
	w.Helper()
	set := &v1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "web", Labels: map[string]string{"team": "red"}}}
	set.Spec.PlacementRefs, set.Spec.ManifestWorkTemplate = refs, template("1")
	w.Must(w.Create(context.Background(), set))
	w.Cleanup(func() {
		w.Must(client.IgnoreNotFound(w.Delete(context.Background(), set)))
		for _, mw := range w.works() {
			w.Must(client.IgnoreNotFound(w.Delete(context.Background(), &mw)))
			w.Release(&mw)
		}
		_, err := w.pass()
		w.Must(err)
	})
}

// set is as it is on the hub.
func (w *replicaSetWorld) set() *v1alpha1.ManifestWorkReplicaSet {
	w.Helper()
	set := &v1alpha1.ManifestWorkReplicaSet{}
	w.Must(w.Get(context.Background(), w.key(), set))
	return set
}

// change changes the set.
func (w *replicaSetWorld) change(change func(*v1alpha1.ManifestWorkReplicaSet)) {
	w.Helper()
	w.Must(retry.RetryOnConflict(retry.DefaultRetry, func() error { // the controller may be running
		set := w.set()
		change(set)
		return w.Update(context.Background(), set)
	}))
}

// version gives the template another version.
func (w *replicaSetWorld) version(v string) {
	w.Helper()
	w.change(func(s *v1alpha1.ManifestWorkReplicaSet) { s.Spec.ManifestWorkTemplate = template(v) })
}

func (w *replicaSetWorld) pass() (reconcile.Result, error) {
	return w.controller.Reconcile(context.Background(), reconcile.Request{NamespacedName: w.key()})
}

// reconcile has the controller look at the set once.
func (w *replicaSetWorld) reconcile() reconcile.Result {
	w.Helper()
	r, err := w.pass()
	w.Must(err)
	return r
}

// works are the set's, by cluster and placement.
func (w *replicaSetWorld) works() []workv1.ManifestWork {
	w.Helper()
	list := &workv1.ManifestWorkList{}
	w.Must(w.List(context.Background(), list, client.MatchingLabels{work.ReplicaSetLabel: w.name + ".web"}))
	slices.SortFunc(list.Items, func(a, b workv1.ManifestWork) int {
		return strings.Compare(a.Namespace+"/"+a.Labels[work.PlacementNameLabel], b.Namespace+"/"+b.Labels[work.PlacementNameLabel])
	})
	return list.Items
}

// delivered tells which version each cluster has, and for which placement.
func (w *replicaSetWorld) delivered() string {
	w.Helper()
	var out []string
	for _, mw := range w.works() {
		text := fmt.Sprintf("%s/%s=%s", strings.TrimPrefix(mw.Namespace, w.name+"-"), mw.Labels[work.PlacementNameLabel], versionOf(w, mw))
		if mw.DeletionTimestamp != nil {
			text += "(going)"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func versionOf(t testing.TB, mw workv1.ManifestWork) string {
	t.Helper()
	var object struct{ Data struct{ Version string } }
	if err := json.Unmarshal(mw.Spec.Workload.Manifests[0].Raw, &object); err != nil {
		t.Fatal(err)
	}
	return object.Data.Version
}

func (w *replicaSetWorld) mustDeliver(want string) {
	w.Helper()
	if got := w.delivered(); got != want {
		w.Errorf("the works are %q, want %q", got, want)
	}
}

// agents have the clusters, written as in "a b", report conditions of their
// works, such as "Applied Available -Progressing ?Degraded", the present
// generation, and the clock's time as that of each transition.
func (w *replicaSetWorld) agents(clusters, conditions string) {
	w.Helper()
	for c := range strings.FieldsSeq(clusters) {
		found := false
		for _, mw := range w.works() {
			if mw.Namespace == w.full(c) {
				found = true
				w.agent(&mw, conditions)
			}
		}
		if !found {
			w.Fatalf("the cluster %s has no work", c)
		}
	}
}

func (w *replicaSetWorld) agent(mw *workv1.ManifestWork, conditions string) {
	w.Helper()
	for field := range strings.FieldsSeq(conditions) {
		status := metav1.ConditionTrue
		kind, ok := strings.CutPrefix(field, "-")
		if ok {
			status = metav1.ConditionFalse
		} else if kind, ok = strings.CutPrefix(field, "?"); ok {
			status = metav1.ConditionUnknown
		}
		meta.RemoveStatusCondition(&mw.Status.Conditions, kind)
		meta.SetStatusCondition(&mw.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "Test", ObservedGeneration: mw.Generation, LastTransitionTime: metav1.NewTime(w.clock.Now())})
	}
	w.Must(w.Status().Update(context.Background(), mw))
}

// done is what agents report of a work that needs nothing more.
const done = "Applied Available -Progressing"

// finish has agents report that they are done, and the controller look at it.
func (w *replicaSetWorld) finish(clusters string) {
	w.Helper()
	w.agents(clusters, done)
	w.reconcile()
}

// hold has an agent's finalizer keep the works of clusters.
func (w *replicaSetWorld) hold(clusters ...string) {
	w.Helper()
	for _, mw := range w.works() {
		if slices.Contains(clusters, strings.TrimPrefix(mw.Namespace, w.name+"-")) {
			mw.Finalizers = []string{work.ManifestWorkFinalizer}
			w.Must(w.Update(context.Background(), &mw))
		}
	}
}

// reported is the set's status in short.
func (w *replicaSetWorld) reported() string {
	w.Helper()
	set := w.set()
	var out []string
	for _, kind := range []string{work.ConditionPlacementVerified, work.ConditionPlacementRolledOut, work.ConditionManifestworkApplied} {
		c := meta.FindStatusCondition(set.Status.Conditions, kind)
		if c == nil {
			out = append(out, kind+":none")
			continue
		}
		out = append(out, fmt.Sprintf("%s:%s/%s", kind, c.Status, c.Reason))
	}
	s := set.Status.Summary
	return strings.Join(out, " ") + fmt.Sprintf(" total:%d applied:%d available:%d progressing:%d degraded:%d", s.Total, s.Applied, s.Available, s.Progressing, s.Degraded)
}

func (w *replicaSetWorld) mustReport(want string) {
	w.Helper()
	if got := w.reported(); got != want {
		w.Errorf("the status is\n%s, want\n%s", got, want)
	}
}

func (w *replicaSetWorld) step(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }
