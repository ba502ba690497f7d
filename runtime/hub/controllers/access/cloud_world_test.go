package access_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/logicalcloud"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// world is one namespace with a cluster set bound to it, and some clusters of the
// set. The tests play the scheduler, the agents and the controller of access
// requests. The controller runs only when it is told to.
type cloudWorld struct {
	*testworld.World
	clock      *clocktesting.FakePassiveClock
	writes     *testkit.Writes
	name       string
	controller *logicalcloud.Controller
	// accountsTaken says that somebody has the namespace of the service accounts.
	accountsTaken bool
}

func newCloudWorld(t testing.TB, clusters ...string) *cloudWorld {
	t.Helper()
	w := &cloudWorld{World: env.World(t), clock: clocktesting.NewFakePassiveClock(noon)}
	counting, writes := env.Counting(t)
	w.writes = writes
	w.controller = logicalcloud.NewController(counting, counting, w.clock, logicalcloud.Options{})
	w.name = w.BoundSet()
	for _, c := range clusters {
		w.Make(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.full(c)}})
		w.Make(&clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: w.full(c), Labels: map[string]string{cluster.ClusterSetLabel: w.name}},
			Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)},
		})
	}
	w.Make(&v1alpha1.AccessRole{
		ObjectMeta: metav1.ObjectMeta{Name: w.role()},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}},
	})
	return w
}

// newCloud is a world with the cloud "prod" and a placement "p" that selects some
// of its clusters, written as in "a b".
func newCloud(t testing.TB, clusters, selected string, change ...func(*v1alpha1.LogicalCloudSpec)) *cloudWorld {
	t.Helper()
	w := newCloudWorld(t, strings.Fields(clusters)...)
	w.place("p", selected)
	w.cloud("prod", change...)
	return w
}

// cloud makes a cloud with the namespace named like the world's.
func (w *cloudWorld) cloud(name string, change ...func(*v1alpha1.LogicalCloudSpec)) {
	w.Helper()
	lc := &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	lc.Spec.Placements = []v1alpha1.PlacementReference{{Name: "p"}}
	lc.Spec.Namespace.Name = w.name + "-apps"
	lc.Spec.Grants = []v1alpha1.Grant{{Role: w.role(), Users: []string{"jo"}, Groups: []string{"devs"}}}
	for _, f := range change {
		f(&lc.Spec)
	}
	w.Must(w.Create(context.Background(), lc))
	w.Cleanup(func() {
		w.Must(client.IgnoreNotFound(w.Delete(context.Background(), lc)))
		for _, mw := range w.works("") {
			w.Must(client.IgnoreNotFound(w.Delete(context.Background(), &mw)))
			w.Release(&mw)
		}
		w.Release(lc)
	})
}

// role is the AccessRole of the world.
func (w *cloudWorld) role() string { return w.name + "-edit" }

// full is the name of a cluster, and of its namespace.
func (w *cloudWorld) full(cluster string) string { return w.name + "-" + cluster }

// place has a placement select clusters. It creates the placement, too.
func (w *cloudWorld) place(name, clusters string) {
	w.Helper()
	ctx := context.Background()
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.name, Name: name + "-decision-0", Labels: map[string]string{cluster.PlacementLabel: name},
	}}
	for _, o := range []client.Object{p, d} {
		if err := w.Get(ctx, client.ObjectKeyFromObject(o), o); apierrors.IsNotFound(err) {
			w.Make(o)
		}
	}
	d.Status.Decisions = []clusterv1beta1.ClusterDecision{}
	for c := range strings.FieldsSeq(clusters) {
		d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: w.full(c)})
	}
	w.Must(w.Status().Update(ctx, d))
	p.Status.NumberOfSelectedClusters = int32(len(d.Status.Decisions))
	w.Must(w.Status().Update(ctx, p))
}

// pass has the controller look at a cloud once.
func (w *cloudWorld) pass(name string) {
	w.Helper()
	_, err := w.controller.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: w.name, Name: name}})
	w.Must(err)
}

func (w *cloudWorld) get(name string) *v1alpha1.LogicalCloud {
	w.Helper()
	lc := &v1alpha1.LogicalCloud{}
	w.Must(w.Get(context.Background(), types.NamespacedName{Namespace: w.name, Name: name}, lc))
	return lc
}

// change changes a cloud.
func (w *cloudWorld) change(name string, change func(*v1alpha1.LogicalCloudSpec)) {
	w.Helper()
	w.Must(retry.RetryOnConflict(retry.DefaultRetry, func() error { // the controller may be running
		lc := w.get(name)
		change(&lc.Spec)
		return w.Update(context.Background(), lc)
	}))
}

// works are those of a cloud of the world, or of all.
func (w *cloudWorld) works(name string) (found []workv1.ManifestWork) {
	w.Helper()
	list := &workv1.ManifestWorkList{}
	w.Must(w.List(context.Background(), list, client.HasLabels{muster.LogicalCloudLabel}))
	for _, mw := range list.Items {
		of := mw.Annotations[muster.LogicalCloudAnnotation]
		if of == w.name+"/"+name || name == "" && strings.HasPrefix(of, w.name+"/") {
			found = append(found, mw)
		}
	}
	return found
}

// there tells what a cloud has on the hub, as in "a:probe b:work".
func (w *cloudWorld) there(name string) string {
	w.Helper()
	var out []string
	for _, mw := range w.works(name) {
		kind := "work"
		if mw.Name == muster.CloudProbe(w.name, name) {
			kind = "probe"
		}
		if mw.DeletionTimestamp != nil {
			kind += "(going)"
		}
		out = append(out, strings.TrimPrefix(mw.Namespace, w.name+"-")+":"+kind)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (w *cloudWorld) must(name, want string) {
	w.Helper()
	if got := w.there(name); got != want {
		w.Errorf("the cloud %s has %q, want %q", name, got, want)
	}
}

// work is the work of a cloud in a cluster.
func (w *cloudWorld) work(name, cluster string) *workv1.ManifestWork {
	w.Helper()
	mw := &workv1.ManifestWork{}
	w.Must(w.Get(context.Background(), types.NamespacedName{Namespace: w.full(cluster), Name: muster.CloudWork(w.name, name)}, mw))
	return mw
}

// answer has the agents of all clusters say about the probes whether the namespace
// is there, with values as in "hub=x".
func (w *cloudWorld) answer(name string, exists bool, values ...string) {
	w.Helper()
	for _, mw := range w.works(name) {
		if mw.Name != muster.CloudProbe(w.name, name) {
			continue
		}
		entry := entryOf(w.name+"-apps", exists)
		for _, v := range values {
			key, value, _ := strings.Cut(v, "=")
			entry.StatusFeedbacks.Values = append(entry.StatusFeedbacks.Values, workv1.FeedbackValue{
				Name: key, Value: workv1.FieldValue{Type: workv1.ValueTypeString, String: ptr.To(value)},
			})
		}
		mw.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{entry, entryOf(w.accounts(name), w.accountsTaken)}
		w.agent(&mw, work.ConditionAvailable, metav1.ConditionFalse)
	}
}

// entryOf is what an agent says of a namespace that it only looks at.
func entryOf(namespace string, exists bool) workv1.ManifestCondition {
	status := metav1.ConditionFalse
	if exists {
		status = metav1.ConditionTrue
	}
	return workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Resource: "namespaces", Name: namespace},
		Conditions: []metav1.Condition{{
			Type: work.ConditionAvailable, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(noon),
		}},
	}
}

// accounts is the namespace in clusters with the service accounts of a cloud's users.
func (w *cloudWorld) accounts(name string) string {
	w.Helper()
	return muster.AccountNamespace(w.hubID(), muster.CloudID(w.name, name))
}

// agent has an agent report a condition of the work's present generation.
func (w *cloudWorld) agent(mw *workv1.ManifestWork, kind string, status metav1.ConditionStatus) {
	w.Helper()
	meta.SetStatusCondition(&mw.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: "Test", ObservedGeneration: mw.Generation, LastTransitionTime: metav1.NewTime(noon),
	})
	w.Must(w.Status().Update(context.Background(), mw))
}

// apply has the agents apply the works of a cloud, and add their finalizer.
func (w *cloudWorld) apply(name string) {
	w.Helper()
	for _, mw := range w.works(name) {
		if mw.Name != muster.CloudWork(w.name, name) {
			continue
		}
		if mw.DeletionTimestamp == nil && len(mw.Finalizers) == 0 {
			mw.Finalizers = []string{work.ManifestWorkFinalizer}
			w.Must(w.Update(context.Background(), &mw))
		}
		w.agent(&mw, work.ConditionApplied, metav1.ConditionTrue)
		w.agent(&mw, work.ConditionAvailable, metav1.ConditionTrue)
	}
}

// settle has controller and agents bring a cloud into clusters that do not have
// its namespace yet.
func (w *cloudWorld) settle(name string) {
	w.Helper()
	w.pass(name)
	w.answer(name, false)
	w.pass(name)
	w.apply(name)
	w.pass(name)
}

// leave has the agents remove what is being deleted.
func (w *cloudWorld) leave(name string) {
	w.Helper()
	for _, mw := range w.works(name) {
		if mw.DeletionTimestamp != nil {
			w.Release(&mw)
		}
	}
}

// request makes a live request with a key for a user of a cloud.
func (w *cloudWorld) request(name, cloudName, cluster, user string, key int) *v1alpha1.AccessRequest {
	w.Helper()
	return w.requestIn(v1alpha1.AccessCertificate, name, cloudName, cluster, user, key)
}

func (w *cloudWorld) requestIn(mode v1alpha1.AccessMode, name, cloudName, cluster, user string, key int) *v1alpha1.AccessRequest {
	w.Helper()
	r := &v1alpha1.AccessRequest{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	r.Spec = v1alpha1.AccessRequestSpec{
		LogicalCloud: cloudName, ManagedCluster: w.full(cluster), User: user, Mode: mode, Request: []byte("x"),
	}
	w.Make(r)
	r.Status.KeyHash = fmt.Sprintf("%032x", key)
	r.Status.Conditions = []metav1.Condition{{
		Type: muster.ConditionApproved, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.NewTime(noon),
	}}
	w.Must(w.Status().Update(context.Background(), r))
	return r
}

// bound are the keys that a cloud's work in a cluster binds, by their numbers.
func (w *cloudWorld) bound(name, cluster string) (keys string) {
	w.Helper()
	for hash := range strings.SplitSeq(w.work(name, cluster).Annotations[muster.BoundKeysAnnotation], ",") {
		keys += strings.TrimLeft(hash, "0")
	}
	return keys
}

// hubID is the hub's.
func (w *cloudWorld) hubID() string {
	w.Helper()
	ns := &corev1.Namespace{}
	w.Must(w.Get(context.Background(), types.NamespacedName{Name: metav1.NamespaceSystem}, ns))
	return access.HubID(string(ns.UID))
}

// reported is a cloud's status in short.
func (w *cloudWorld) reported(name string) string {
	w.Helper()
	lc := w.get(name)
	out := fmt.Sprintf("%d/%d/%d", lc.Status.Clusters.Selected, lc.Status.Clusters.Ready, lc.Status.Clusters.Failed)
	for _, f := range lc.Status.Clusters.Failing {
		out += " " + strings.TrimPrefix(f.Name, w.name+"-") + ":" + f.Reason
	}
	for _, kind := range []string{muster.ConditionSelected, muster.ConditionApplied, muster.ConditionReady, muster.ConditionDeleting} {
		if c := meta.FindStatusCondition(lc.Status.Conditions, kind); c != nil {
			out += fmt.Sprintf(" %s:%s/%s", kind, c.Status, c.Reason)
		}
	}
	return out
}

func (w *cloudWorld) mustReport(name, want string) {
	w.Helper()
	if got := w.reported(name); got != want {
		w.Errorf("the status is\n%s, want\n%s\n%+v", got, want, w.get(name).Status)
	}
}
