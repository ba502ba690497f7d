package addon_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	addoncontrollers "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon"
)

const (
	silent  = "ManagedClusterConditionAvailable"
	prefix  = "feature.open-cluster-management.io/addon-"
	holding = "example.org/holding"
)

// world is one cluster with its namespace, both of the same name.
type world struct {
	*testworld.World
	name   string
	writes *testkit.Writes
}

// newWorld makes a cluster. The world counts what is written through it.
func newWorld(t testing.TB) *world {
	t.Helper()
	c, writes := env.Counting(t)
	w := &world{World: testworld.New(t, c), writes: writes}
	w.name = w.Namespace()
	w.Make(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: map[string]string{"env": "prod"}}})
	return w
}

func (w *world) cluster() *clusterv1.ManagedCluster {
	w.Helper()
	mc := &clusterv1.ManagedCluster{}
	w.Must(w.Get(context.Background(), types.NamespacedName{Name: w.name}, mc))
	return mc
}

// is reports the cluster's availability.
func (w *world) is(status metav1.ConditionStatus) {
	w.Helper()
	mc := w.cluster()
	before := mc.DeepCopy()
	meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: silent, Status: status, Reason: "Of" + string(status), Message: "said the test"})
	w.Must(w.Status().Patch(context.Background(), mc, client.MergeFrom(before)))
}

// addOn makes an add-on that reports a status, or none.
func (w *world) addOn(name string, status metav1.ConditionStatus) *addonv1alpha1.ManagedClusterAddOn {
	w.Helper()
	a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	w.Must(w.Create(context.Background(), a))
	if status != "" {
		meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{Type: "Available", Status: status, Reason: "Test", Message: "said its agent"})
		w.Must(w.Status().Update(context.Background(), a))
	}
	return a
}

// reconcile has a controller look at the cluster, and returns how often it wrote.
func (w *world) reconcile(r reconcile.Reconciler) int64 {
	w.Helper()
	return w.writes.During(func() { w.Reconcile(r, types.NamespacedName{Name: w.name}) })
}

// features are the cluster's labels about add-ons.
func (w *world) features() map[string]string {
	w.Helper()
	out := map[string]string{}
	for k, v := range w.cluster().Labels {
		if name, ok := strings.CutPrefix(k, prefix); ok {
			out[name] = v
		}
	}
	return out
}

func (w *world) mustFeature(want map[string]string) {
	w.Helper()
	if got := w.features(); !maps.Equal(got, want) {
		w.Errorf("the features are %v, want %v", got, want)
	}
}

func availability(a *addonv1alpha1.ManagedClusterAddOn) string {
	c := meta.FindStatusCondition(a.Status.Conditions, "Available")
	if c == nil {
		return ""
	}
	return strings.Join([]string{string(c.Status), c.Reason, c.Message}, "/")
}

func TestAddOnsOfASilentClusterAreUnknown(t *testing.T) {
	for status, want := range map[metav1.ConditionStatus][]string{
		metav1.ConditionUnknown: {"Unknown/OfUnknown/said the test", "Unknown/OfUnknown/said the test"},
		metav1.ConditionFalse:   {"True/Test/said its agent", ""},
		metav1.ConditionTrue:    {"True/Test/said its agent", ""},
		"":                      {"True/Test/said its agent", ""},
	} {
		t.Run(string(status), func(t *testing.T) {
			w := newWorld(t)
			addOns := []*addonv1alpha1.ManagedClusterAddOn{w.addOn("reports", metav1.ConditionTrue), w.addOn("reports-nothing", "")}
			if status != "" {
				w.is(status)
			}
			first, second := w.reconcile(addoncontrollers.NewHealth(w)), w.reconcile(addoncontrollers.NewHealth(w))
			for i, a := range addOns {
				w.Must(w.Get(context.Background(), client.ObjectKeyFromObject(a), a))
				if got := availability(a); got != want[i] {
					t.Errorf("the add-on %s is %q, want %q", a.Name, got, want[i])
				}
			}
			if n := map[bool]int64{true: 2}[status == metav1.ConditionUnknown]; first != n || second != 0 {
				t.Errorf("%d writes, then %d, want %d and none", first, second, n)
			}
		})
	}
}

// An add-on may have been written in the other version, and its status may say
// much more.
func TestOnlyTheConditionOfASilentClustersAddOnChanges(t *testing.T) {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t)
			w.is(metav1.ConditionUnknown)
			w.addOn("a", "")
			registration := map[string]any{"type": "customSigner", "customSigner": map[string]any{"signerName": "example.org/signer"}}
			if version == "v1alpha1" {
				registration = map[string]any{"signerName": "example.org/signer"}
			}
			addOns := addOnsIn(t, version, w.name)
			before, err := addOns.Get(context.Background(), "a", metav1.GetOptions{})
			w.Must(err)
			before.Object["status"] = map[string]any{
				"namespace":     "agents",
				"healthCheck":   map[string]any{"mode": "Lease"},
				"registrations": []any{registration},
				"conditions": []any{map[string]any{
					"type": "Configured", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T12:00:00Z",
				}},
			}
			_, err = addOns.UpdateStatus(context.Background(), before, metav1.UpdateOptions{})
			w.Must(err)
			// What the server itself does not keep across versions is not at issue.
			before, err = addOns.Get(context.Background(), "a", metav1.GetOptions{})
			w.Must(err)
			w.reconcile(addoncontrollers.NewHealth(w))
			after, err := addOns.Get(context.Background(), "a", metav1.GetOptions{})
			w.Must(err)
			if err := sameButFor(before, after, "Available"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAnAddOnThatComesToASilentClusterIsUnknown(t *testing.T) {
	w := newWorld(t)
	w.is(metav1.ConditionUnknown)
	env.StartManager(t, func(m manager.Manager) error { return addoncontrollers.NewHealth(m.GetClient()).Register(m) })
	a := w.addOn("late", "")
	until := func() {
		t.Helper()
		testkit.Eventually(t, func() error {
			if err := w.Get(context.Background(), client.ObjectKeyFromObject(a), a); err != nil {
				return err
			}
			if got := availability(a); got != "Unknown/OfUnknown/said the test" {
				return fmt.Errorf("the add-on is %q", got)
			}
			return nil
		})
	}
	until()
	w.ReportOn(a, func() {
		meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{Type: "Available", Status: metav1.ConditionTrue, Reason: "Test"})
	})
	until()
}

func TestManyAddOnsAreReportedInOneWrite(t *testing.T) {
	w := newWorld(t)
	w.is(metav1.ConditionTrue)
	want := map[string]string{}
	for i := range 8 {
		name := fmt.Sprintf("addon-%d", i)
		w.addOn(name, metav1.ConditionTrue)
		want[name] = "available"
	}
	long := strings.Repeat("x", 60) // no label's name is as long as that with the prefix
	w.addOn(long, metav1.ConditionTrue)
	if n := w.reconcile(addoncontrollers.NewDiscovery(w)); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
	w.mustFeature(want)
	if w.cluster().Labels["env"] != "prod" {
		t.Error("the user's label is gone")
	}
	if n := w.reconcile(addoncontrollers.NewDiscovery(w)); n != 0 {
		t.Errorf("%d writes although nothing has changed", n)
	}
}

func TestAnAddOnThatGoesIsReportedNoMore(t *testing.T) {
	w := newWorld(t)
	w.is(metav1.ConditionTrue)
	a := w.addOn("a", metav1.ConditionTrue)
	w.Must(w.Patch(context.Background(), a, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["`+holding+`"]}}`))))
	t.Cleanup(func() { w.Release(a) })
	w.addOn("b", metav1.ConditionFalse)
	w.reconcile(addoncontrollers.NewDiscovery(w))
	w.mustFeature(map[string]string{"a": "available", "b": "unhealthy"})
	w.Must(w.Delete(context.Background(), a))
	w.reconcile(addoncontrollers.NewDiscovery(w))
	w.mustFeature(map[string]string{"b": "unhealthy"})
}

// The agent is told of add-ons until the last of them is gone, whatever their names are and
// whether a label tells of them.
func TestAClusterWithAddOnsSaysSo(t *testing.T) {
	w := newWorld(t)
	w.is(metav1.ConditionTrue)
	must := func(want string) {
		t.Helper()
		w.reconcile(addoncontrollers.NewDiscovery(w))
		if got, there := w.cluster().Annotations[muster.AddOnsAnnotation]; got != want || there != (want != "") {
			t.Errorf("the annotation is %q, want %q", got, want)
		}
	}
	must("")
	a := w.addOn(strings.Repeat("x", 60), metav1.ConditionTrue)
	must("true")
	w.Merge(a, `{"metadata":{"finalizers":[%q]}}`, holding)
	w.Must(w.Delete(context.Background(), a))
	must("true")
	w.Release(a)
	must("")
}

func TestAClusterThatCannotHaveAddOnsYetIsNotLabelled(t *testing.T) {
	for name, change := range map[string]func(*world){
		"never reported": func(*world) {},
		"being deleted": func(w *world) {
			w.is(metav1.ConditionTrue)
			w.Must(w.Patch(context.Background(), w.cluster(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["`+holding+`"]}}`))))
			w.Must(w.Delete(context.Background(), w.cluster()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.addOn("a", metav1.ConditionTrue)
			change(w)
			if n := w.reconcile(addoncontrollers.NewDiscovery(w)); n != 0 {
				t.Errorf("%d writes", n)
			}
			w.mustFeature(map[string]string{})
		})
	}
}

func TestLabelsThatOthersChangeArePutRight(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	w.addOn("a", metav1.ConditionTrue)
	other.addOn("a", metav1.ConditionTrue)
	other.is(metav1.ConditionTrue)
	register := func(m manager.Manager) error { return addoncontrollers.NewDiscovery(m.GetClient()).Register(m) }
	env.StartManager(t, register)
	until := func(w *world) {
		t.Helper()
		testkit.Eventually(t, func() error {
			if got := w.features(); !maps.Equal(got, map[string]string{"a": "available"}) {
				return fmt.Errorf("the features are %v", got)
			}
			return nil
		})
	}
	until(other)               // the controller runs
	w.is(metav1.ConditionTrue) // its first report
	until(w)
	for _, labels := range []string{`{"` + prefix + `a":"unhealthy"}`, `{"` + prefix + `a":null}`, `{"` + prefix + `stale":"available"}`} {
		w.Must(w.Patch(context.Background(), w.cluster(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":`+labels+`}}`))))
		until(w)
	}
	for _, value := range []string{`null`, `"no"`} {
		w.Merge(w.cluster(), `{"metadata":{"annotations":{%q:`+value+`}}}`, muster.AddOnsAnnotation)
		w.Eventually(func() error {
			if got := w.cluster().Annotations[muster.AddOnsAnnotation]; got != "true" {
				return fmt.Errorf("the annotation is %q", got)
			}
			return nil
		})
	}
}
