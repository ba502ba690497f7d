package registration_test

import (
	"context"
	"fmt"
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
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
)

var env testenv.Env

func TestMain(m *testing.M) { testenv.Main(m, &env, testenv.Gated(kinds.HubWithClusterRegistration)) }

// noon is when the tests' clock starts.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// holding is a finalizer that keeps an object until the test lets it go.
const holding = "example.org/holding"

// world is one cluster with its namespace, both of the same name.
type world struct {
	*testworld.World
	name string
}

// newWorld makes a cluster as change wants it. There are no other controllers
// than those that the test runs, and no admission.
func newWorld(t testing.TB, change func(*clusterv1.ManagedCluster)) *world {
	t.Helper()
	w := &world{World: env.World(t)}
	// Labelled from the start: other namespaces are given a config map.
	w.name = "test-" + string(uuid.NewUUID()[:8])
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: map[string]string{cluster.NameLabel: w.name}}}
	w.Make(ns)
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	if change != nil {
		change(mc)
	}
	w.Make(mc)
	return w
}

func (w *world) report(kind string, status metav1.ConditionStatus) {
	w.Helper()
	mc := w.cluster()
	before := mc.DeepCopy()
	meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "Test", Message: "said the test"})
	w.Must(w.Status().Patch(context.Background(), mc, client.MergeFrom(before)))
}

// cluster reads the cluster.
func (w *world) cluster() *clusterv1.ManagedCluster {
	w.Helper()
	mc := &clusterv1.ManagedCluster{}
	w.Must(w.Get(context.Background(), types.NamespacedName{Name: w.name}, mc))
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
	w.Eventually(func() error { return says(w.cluster(), kind, status, reason, message) })
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
	return w.Reconcile(r, types.NamespacedName{Name: w.name})
}

// run runs a controller until the test ends.
func run(t testing.TB, register func(m manager.Manager) error) {
	t.Helper()
	env.StartManager(t, register)
}
