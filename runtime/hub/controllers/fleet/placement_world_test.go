package fleet_test

import (
	"context"
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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/placement"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling/incremental"
)

// noon is when the tests' clock starts.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// world is one namespace with one bound cluster set, both of the same name, and
// the placement "p" in it. The controller runs only when it is told to.
type placementWorld struct {
	*testworld.World
	clock  *clocktesting.FakePassiveClock
	events *events.FakeRecorder
	name   string

	// hub is what the controller writes to.
	hub client.Client
}

// newWorld makes a world with clusters of the given names.
func newPlacementWorld(t testing.TB, clusters ...string) *placementWorld {
	t.Helper()
	w := &placementWorld{World: env.World(t), clock: clocktesting.NewFakePassiveClock(noon), events: events.NewFakeRecorder(1000)}
	w.hub = w.Client
	w.name = w.BoundSet()
	for _, c := range clusters {
		w.Make(w.cluster(c))
	}
	return w
}

// cluster is a cluster of the world's set.
func (w *placementWorld) cluster(name string) *clusterv1.ManagedCluster {
	return testworld.Member(w.name, name)
}

// makeNamespaces makes the namespaces of clusters.
func (w *placementWorld) makeNamespaces(clusters ...string) {
	w.Helper()
	for _, c := range clusters {
		w.Make(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + c}})
	}
}

// place makes the placement and has the controller decide.
func (w *placementWorld) place(spec clusterv1beta1.PlacementSpec) reconcile.Result {
	w.Helper()
	w.Make(&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "p"}, Spec: spec})
	return w.reconcile()
}

// reconcile runs the controller, and again after a conflict, as a manager would.
func (w *placementWorld) reconcile() (r reconcile.Result) {
	w.Helper()
	w.Must(retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		c := placement.NewController(w.hub, w.events, w.clock, scheduling.Options{})
		w.feed(c.Engine())
		r, err = c.Reconcile(context.Background(), reconcile.Request{NamespacedName: w.key("p")})
		return err
	}))
	return r
}

// feed tells an engine of all that there is, as a manager's watches would.
func (w *placementWorld) feed(e *incremental.Engine) {
	w.Helper()
	each(w, &clusterv1beta2.ManagedClusterSetList{}, e.UpsertSet)
	each(w, &clusterv1.ManagedClusterList{}, e.UpsertCluster)
	each(w, &clusterv1beta2.ManagedClusterSetBindingList{}, func(b *clusterv1beta2.ManagedClusterSetBinding) []types.NamespacedName {
		return e.UpsertBinding(client.ObjectKeyFromObject(b))
	})
	each(w, &clusterv1alpha1.AddOnPlacementScoreList{}, e.UpsertScore)
	each(w, &clusterv1beta1.PlacementList{}, e.UpsertPlacement)
	each(w, &clusterv1beta1.PlacementDecisionList{}, e.UpsertDecision)
}

// each calls a function with every object of a kind.
func each[T client.Object](w *placementWorld, list client.ObjectList, f func(T) []types.NamespacedName) {
	w.Helper()
	w.Must(w.List(context.Background(), list))
	w.Must(meta.EachListItem(list, func(o runtime.Object) error {
		f(o.(T))
		return nil
	}))
}

func (w *placementWorld) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.name, Name: name}
}

func (w *placementWorld) placement() *clusterv1beta1.Placement {
	w.Helper()
	p := &clusterv1beta1.Placement{}
	w.Must(w.Get(context.Background(), w.key("p"), p))
	return p
}

// decisions are those in the namespace, by number.
func (w *placementWorld) decisions() []clusterv1beta1.PlacementDecision {
	w.Helper()
	l := &clusterv1beta1.PlacementDecisionList{}
	w.Must(w.List(context.Background(), l, client.InNamespace(w.name)))
	slices.SortFunc(l.Items, func(a, b clusterv1beta1.PlacementDecision) int { return strings.Compare(a.Name, b.Name) })
	return l.Items
}

// summary tells of each decision its number, its group and its clusters.
func (w *placementWorld) summary() string {
	w.Helper()
	var out []string
	for _, d := range w.decisions() {
		var clusters []string
		for _, x := range d.Status.Decisions {
			clusters = append(clusters, strings.TrimPrefix(x.ClusterName, w.name+"-"))
		}
		out = append(out, fmt.Sprintf("%s[%s/%s]=%s", strings.TrimPrefix(d.Name, "p-decision-"),
			d.Labels[cluster.DecisionGroupIndexLabel], d.Labels[cluster.DecisionGroupNameLabel], strings.Join(clusters, ",")))
	}
	return strings.Join(out, " ")
}

func (w *placementWorld) mustDecide(want string) {
	w.Helper()
	if got := w.summary(); got != want {
		w.Errorf("the decisions are %q, want %q", got, want)
	}
}
