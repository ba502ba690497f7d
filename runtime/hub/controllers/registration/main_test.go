// Package registration_test checks the rules of the controllers below this
// folder against a real API server.
package registration_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

var env testenv.Env

func TestMain(m *testing.M) { testenv.Main(m, &env) }

// noon is when the tests' clock starts.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// holding is a finalizer that keeps an object until the test lets it go.
const holding = "example.org/holding"

// world is one cluster with its namespace, both of the same name.
type world struct {
	testing.TB
	client.Client
	name string
}

// newWorld makes a cluster as change wants it. There are no other controllers
// than those that the test runs, and no admission.
func newWorld(t testing.TB, change func(*clusterv1.ManagedCluster)) *world {
	t.Helper()
	w := &world{TB: t, Client: env.Client()}
	// Labelled from the start: other namespaces are given a config map.
	w.name = "test-" + string(uuid.NewUUID()[:8])
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: map[string]string{cluster.NameLabel: w.name}}}
	w.must(w.Create(context.Background(), ns))
	t.Cleanup(func() { w.must(w.Delete(context.Background(), ns)) })
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	if change != nil {
		change(mc)
	}
	w.make(mc)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// make creates an object that goes with the test, whatever holds it.
func (w *world) make(o client.Object) {
	w.Helper()
	w.must(w.Create(context.Background(), o))
	w.Cleanup(func() { w.remove(o) })
}

// remove deletes an object and frees it of its finalizers.
func (w *world) remove(o client.Object) {
	w.Helper()
	w.must(client.IgnoreNotFound(w.Delete(context.Background(), o)))
	testenv.Eventually(w, func() error {
		if err := w.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
			return client.IgnoreNotFound(err)
		}
		free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := client.IgnoreNotFound(w.Patch(context.Background(), o, free)); err != nil {
			return err
		}
		return fmt.Errorf("%T %s is still there", o, o.GetName())
	})
}

// merge changes an object's spec or metadata, report its status.
func (w *world) merge(o client.Object, patch string, args ...any) {
	w.Helper()
	w.must(w.Patch(context.Background(), o, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, patch, args...))))
}

func (w *world) report(kind string, status metav1.ConditionStatus) {
	w.Helper()
	mc := w.cluster()
	before := mc.DeepCopy()
	meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "Test", Message: "said the test"})
	w.must(w.Status().Patch(context.Background(), mc, client.MergeFrom(before)))
}

// cluster reads the cluster.
func (w *world) cluster() *clusterv1.ManagedCluster {
	w.Helper()
	mc := &clusterv1.ManagedCluster{}
	w.must(w.Get(context.Background(), types.NamespacedName{Name: w.name}, mc))
	return mc
}

// mustSay checks a condition of the cluster, in full.
func (w *world) mustSay(kind string, status metav1.ConditionStatus, reason, message string) {
	w.Helper()
	if err := says(w.cluster(), kind, status, reason, message); err != nil {
		w.Error(err)
	}
}

// untilItSays waits for a condition of the cluster.
func (w *world) untilItSays(kind string, status metav1.ConditionStatus, reason, message string) {
	w.Helper()
	testenv.Eventually(w, func() error { return says(w.cluster(), kind, status, reason, message) })
}

func says(mc *clusterv1.ManagedCluster, kind string, status metav1.ConditionStatus, reason, message string) error {
	have := meta.FindStatusCondition(mc.Status.Conditions, kind)
	if have == nil || have.Status != status || have.Reason != reason || have.Message != message {
		return fmt.Errorf("the condition %s is %+v, want %s/%s/%q", kind, have, status, reason, message)
	}
	return nil
}

// reconcile has a controller look at the cluster.
func (w *world) reconcile(r reconcile.Reconciler) reconcile.Result {
	w.Helper()
	result, err := r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: w.name}})
	w.must(err)
	return result
}

// run runs a controller until the test ends.
func run(t testing.TB, register func(m manager.Manager) error) {
	t.Helper()
	env.StartManager(t, register)
}

// counting is a client that counts its writes.
func counting(t testing.TB) (client.Client, *atomic.Int64) {
	t.Helper()
	writes := &atomic.Int64{}
	config := env.Config("muster-test-counting")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				writes.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	return env.ClientFor(t, config), writes
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
