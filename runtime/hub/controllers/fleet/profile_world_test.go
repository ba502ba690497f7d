package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/clusterprofile"
)

// world is one namespace, one cluster set bound in it, and one cluster of the
// set, all of the same name. The controller runs only when it is told to.
type profileWorld struct {
	*testworld.World
	events *events.FakeRecorder
	writes *testkit.Writes
	name   string

	controller *clusterprofile.Controller
}

func newProfileWorld(t testing.TB) *profileWorld {
	t.Helper()
	w := &profileWorld{World: env.World(t), events: events.NewFakeRecorder(1000)}
	counting, writes := env.Counting(t)
	w.writes = writes
	w.controller = clusterprofile.NewController(counting, w.events)
	w.name = w.BoundSet()
	w.bound(metav1.ConditionTrue)
	w.Make(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: map[string]string{cluster.ClusterSetLabel: w.name}}})
	return w
}

// bound says whether the set is bound.
func (w *profileWorld) bound(status metav1.ConditionStatus) {
	w.Helper()
	b := &clusterv1beta2.ManagedClusterSetBinding{}
	w.Must(w.Get(context.Background(), w.key(), b))
	meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{Type: cluster.ConditionBound, Status: status, Reason: "Test"})
	w.Must(w.Status().Update(context.Background(), b))
}

func (w *profileWorld) key() types.NamespacedName {
	return types.NamespacedName{Namespace: w.name, Name: w.name}
}

func (w *profileWorld) cluster() *clusterv1.ManagedCluster {
	w.Helper()
	mc := &clusterv1.ManagedCluster{}
	w.Must(w.Get(context.Background(), types.NamespacedName{Name: w.name}, mc))
	return mc
}

// report changes the cluster's status.
func (w *profileWorld) report(change func(*clusterv1.ManagedClusterStatus)) {
	w.Helper()
	mc := w.cluster()
	change(&mc.Status)
	w.Must(w.Status().Update(context.Background(), mc))
}

// reconcile has the controller look at the cluster's profile, and returns how
// often it wrote.
func (w *profileWorld) reconcile() int64 {
	w.Helper()
	return w.writes.During(func() { w.Reconcile(w.controller, w.key()) })
}

// profile is the cluster's, which has to be there.
func (w *profileWorld) profile() *v1alpha1.ClusterProfile {
	w.Helper()
	p := &v1alpha1.ClusterProfile{}
	w.Must(w.Get(context.Background(), w.key(), p))
	return p
}

// has tells whether the cluster has a profile.
func (w *profileWorld) has() bool {
	w.Helper()
	err := w.Get(context.Background(), w.key(), &v1alpha1.ClusterProfile{})
	w.Must(client.IgnoreNotFound(err))
	return err == nil
}

// until waits for the profile to be there, or not.
func (w *profileWorld) until(there bool) {
	w.Helper()
	w.Eventually(func() error {
		if w.has() != there {
			return fmt.Errorf("there is a profile: %v, want %v", !there, there)
		}
		return nil
	})
}

// register adds a controller to a manager, which then runs by itself.
func (w *profileWorld) register(m manager.Manager) error {
	return clusterprofile.NewController(m.GetClient(), w.events).Register(m)
}

func (w *profileWorld) set() *clusterv1beta2.ManagedClusterSet {
	w.Helper()
	s := &clusterv1beta2.ManagedClusterSet{}
	w.Must(w.Get(context.Background(), types.NamespacedName{Name: w.name}, s))
	return s
}

func byLabels(key, value string) clusterv1beta2.ManagedClusterSelector {
	return clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.LabelSelector, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
}

// reported are the events since the last call.
func (w *profileWorld) reported() string {
	var out []string
	for {
		select {
		case e := <-w.events.Events:
			out = append(out, e)
		default:
			return strings.Join(out, "\n")
		}
	}
}
