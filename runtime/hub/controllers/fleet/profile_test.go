package fleet_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
)

func TestProfileIsWrittenOnlyWhenSomethingChanged(t *testing.T) {
	w := newProfileWorld(t)
	writes := func(when string, want int64) {
		t.Helper()
		if got := w.reconcile(); got != want {
			t.Errorf("%s: %d writes, want %d", when, got, want)
		}
	}
	writes("a cluster that says nothing of itself yet", 1)
	writes("nothing changed", 0)
	w.report(func(s *clusterv1.ManagedClusterStatus) { s.Version.Kubernetes = "v1.36.0" })
	writes("a new version", 1)
	writes("nothing changed", 0)
	w.report(func(s *clusterv1.ManagedClusterStatus) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: cluster.ConditionJoined, Status: metav1.ConditionTrue, Reason: "Test"})
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: cluster.ConditionAvailable, Status: metav1.ConditionTrue, Reason: "Test"})
	})
	writes("two new conditions", 1)
	writes("nothing changed", 0)
	w.report(func(s *clusterv1.ManagedClusterStatus) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: cluster.ConditionClockSynced, Status: metav1.ConditionTrue, Reason: "Test"})
	})
	writes("a condition that profiles do not show", 0)
}

// Nothing keeps a status from naming a claim twice, or from leaving out its name
// or value. A profile takes neither, and must not fall behind for it.
func TestProfileOfAClusterWithOddClaims(t *testing.T) {
	w := newProfileWorld(t)
	w.report(func(s *clusterv1.ManagedClusterStatus) {
		s.Version.Kubernetes = "v1.36.0"
		s.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "zone", Value: "a"}, {Value: "nameless"}, {Name: "empty"}, {Name: "zone", Value: "b"}}
	})
	w.reconcile()
	p := w.profile()
	if p.Status.Version.Kubernetes != "v1.36.0" || len(p.Status.Properties) != 1 || p.Status.Properties[0] != (v1alpha1.Property{Name: "zone", Value: "a"}) {
		t.Errorf("status %+v", p.Status)
	}
}

func TestProfileThatLostItsLabels(t *testing.T) {
	for name, patch := range map[string]string{
		"removed": `{"metadata":{"labels":null}}`,
		"changed": `{"metadata":{"labels":{"x-k8s.io/cluster-manager":"other"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newProfileWorld(t)
			w.reconcile()
			w.Merge(w.profile(), patch)
			w.reconcile()
			if l := w.profile().Labels; l[multicluster.ClusterManagerLabel] != multicluster.ClusterManagerName || l[cluster.NameLabel] != w.name || l[multicluster.ClusterSetLabel] != w.name {
				t.Errorf("labels %v", l)
			}
			if reported := w.reported(); reported != "" {
				t.Errorf("told %q", reported)
			}
			w.Merge(w.profile(), patch)
			w.Must(w.Delete(context.Background(), w.cluster()))
			w.reconcile()
			if w.has() {
				t.Error("it has outlived its cluster")
			}
		})
	}
}

func TestProfileOfAnotherManager(t *testing.T) {
	w := newProfileWorld(t)
	theirs := &v1alpha1.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: w.name},
		Spec:       v1alpha1.ClusterProfileSpec{DisplayName: "theirs", ClusterManager: v1alpha1.ClusterManager{Name: "other"}},
	}
	w.Make(theirs)
	if n := w.reconcile(); n != 0 {
		t.Errorf("%d writes", n)
	}
	if got, want := w.reported(), "Warning NameTaken This profile is kept by another cluster manager, so the managed cluster "+w.name+" has none in the namespace "+w.name+": rename this one, or unbind the cluster's set"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	w.Must(w.Delete(context.Background(), w.cluster()))
	if n := w.reconcile(); n != 0 || w.reported() != "" {
		t.Errorf("%d writes or an event, while there is no cluster that wants the name", n)
	}
	if got := w.profile(); got.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("it has become %+v", got)
	}
}

func TestProfileIsNotMadeAgainInANamespaceThatGoes(t *testing.T) {
	w := newProfileWorld(t)
	w.Make(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "holding", Finalizers: []string{"example.org/holding"}}})
	t.Cleanup(func() {
		w.Merge(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "holding"}}, `{"metadata":{"finalizers":null}}`)
	})
	w.reconcile()
	w.Must(w.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}))
	w.until(false)
	w.reconcile() // must not fail, or it would be tried again and again
	if w.has() {
		t.Error("there is a profile")
	}
}

func TestProfileGoesWithEachReasonForIt(t *testing.T) {
	for name, end := range map[string]func(w *profileWorld){
		"the set is not bound any more": func(w *profileWorld) { w.bound(metav1.ConditionFalse) },
		"the cluster leaves the set":    func(w *profileWorld) { w.Merge(w.cluster(), `{"metadata":{"labels":null}}`) },
		"the cluster moves": func(w *profileWorld) {
			w.Merge(w.cluster(), `{"metadata":{"labels":{"cluster.open-cluster-management.io/clusterset":"other"}}}`)
		},
		"the cluster is deleted": func(w *profileWorld) { w.Must(w.Delete(context.Background(), w.cluster())) },
		"the cluster is being deleted": func(w *profileWorld) {
			w.Merge(w.cluster(), `{"metadata":{"finalizers":["example.org/holding"]}}`)
			w.Cleanup(func() { w.Merge(w.cluster(), `{"metadata":{"finalizers":null}}`) })
			w.Must(w.Delete(context.Background(), w.cluster()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newProfileWorld(t)
			env.StartManager(t, w.register)
			w.until(true)
			end(w)
			w.until(false)
		})
	}
}

func TestProfileFollowsASetThatSelectsByLabels(t *testing.T) {
	w := newProfileWorld(t)
	env.StartManager(t, w.register)
	w.until(true)
	set := w.set()
	set.Spec.ClusterSelector = byLabels("tier", "gold")
	w.Must(w.Update(context.Background(), set))
	w.until(false)
	w.Merge(w.cluster(), `{"metadata":{"labels":{"tier":"gold"}}}`)
	w.until(true)
	if got := w.profile().Labels[multicluster.ClusterSetLabel]; got != w.name {
		t.Errorf("the set's label is %q, want the cluster's own, %q", got, w.name)
	}
	w.Merge(w.cluster(), `{"metadata":{"labels":{"tier":null}}}`)
	w.until(false)
	set = w.set()
	set.Spec.ClusterSelector = byLabels("cluster.open-cluster-management.io/clusterset", w.name)
	w.Must(w.Update(context.Background(), set))
	w.until(true)
	w.Must(w.Delete(context.Background(), set))
	w.until(false)
}

func TestProfileTakesANameThatBecomesFree(t *testing.T) {
	w := newProfileWorld(t)
	theirs := &v1alpha1.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: w.name},
		Spec:       v1alpha1.ClusterProfileSpec{ClusterManager: v1alpha1.ClusterManager{Name: "other"}},
	}
	w.Make(theirs)
	env.StartManager(t, w.register)
	w.Must(w.Delete(context.Background(), theirs))
	testkit.Eventually(t, func() error {
		p := &v1alpha1.ClusterProfile{}
		return w.Get(context.Background(), w.key(), p)
	})
	if got := w.profile().Spec.ClusterManager.Name; got != multicluster.ClusterManagerName {
		t.Errorf("the manager is %q", got)
	}
}
