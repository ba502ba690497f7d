package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

func (w *placementWorld) mustSay(kind string, status metav1.ConditionStatus, reason, message string) {
	w.Helper()
	at := map[string]int{"PlacementMisconfigured": 0, "PlacementSatisfied": 1}[kind]
	conditions := w.placement().Status.Conditions
	if len(conditions) != 2 {
		w.Fatalf("the conditions are %+v, want two", conditions)
	}
	c := conditions[at]
	if got, want := fmt.Sprintf("%s %s/%s/%s", c.Type, c.Status, c.Reason, c.Message), fmt.Sprintf("%s %s/%s/%s", kind, status, reason, message); got != want {
		w.Errorf("condition %d is %s, want %s", at, got, want)
	}
}

func TestAnExpressionThatDoesNotCompileIsAMisconfiguration(t *testing.T) {
	w := newPlacementWorld(t, "a", "b")
	expression := func(text string) {
		t.Helper()
		p := w.placement()
		p.Spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{CELSelector: clusterv1beta1.ClusterCELSelector{CELExpressions: []string{text}}}}}
		w.Must(w.Update(context.Background(), p))
		w.reconcile()
	}
	w.place(clusterv1beta1.PlacementSpec{})
	w.mustDecide("1[0/]=a,b")
	expression(`managedCluster.metadata.labels.name == "a"`)
	w.mustDecide("1[0/]=a")
	expression(`managedCluster.metadata.`)
	w.mustDecide("1[0/]=")
	if c := w.placement().Status.Conditions[0]; c.Status != metav1.ConditionTrue || c.Reason != "Misconfigured" || !strings.HasPrefix(c.Message, "Predicate:compilation failed: ") {
		t.Errorf("the condition is %+v", c)
	}
	w.mustSay("PlacementSatisfied", metav1.ConditionFalse, "NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate")
	if n := w.placement().Status.NumberOfSelectedClusters; n != 0 {
		t.Errorf("%d clusters are chosen, want none", n)
	}
}

func TestOnlyBoundSetsAreChosenFrom(t *testing.T) {
	binding := func(w *placementWorld, name, set string) *clusterv1beta2.ManagedClusterSetBinding {
		return &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set}}
	}
	for name, x := range map[string]struct {
		change  func(w *placementWorld)
		named   []string
		want    string
		reason  string
		message string
	}{
		"a bound one": {want: "1[0/]=a", reason: "AllDecisionsScheduled", message: "All cluster decisions scheduled"},
		"none is bound": {
			change: func(w *placementWorld) { w.Must(w.Delete(context.Background(), binding(w, w.name, w.name))) },
			want:   "1[0/]=", reason: "NoManagedClusterSetBindings", message: "No valid ManagedClusterSetBindings found in placement namespace",
		},
		"the bound one is gone": {
			change: func(w *placementWorld) {
				w.Must(w.Delete(context.Background(), &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: w.name}}))
			},
			want: "1[0/]=", reason: "NoManagedClusterSetBindings", message: "No valid ManagedClusterSetBindings found in placement namespace",
		},
		"a named one is not bound": {
			named: []string{"y", "x"},
			want:  "1[0/]=", reason: "NoIntersection", message: "None of ManagedClusterSets [y,x] is bound to placement namespace",
		},
		"a binding's name counts, not what it says": {
			change: func(w *placementWorld) {
				w.Must(w.Delete(context.Background(), binding(w, w.name, w.name)))
				w.Make(binding(w, "elsewhere", w.name))
			},
			want: "1[0/]=", reason: "NoManagedClusterSetBindings", message: "No valid ManagedClusterSetBindings found in placement namespace",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPlacementWorld(t, "a")
			if x.change != nil {
				x.change(w)
			}
			w.place(clusterv1beta1.PlacementSpec{ClusterSets: x.named})
			w.mustDecide(x.want)
			status := metav1.ConditionFalse
			if x.reason == "AllDecisionsScheduled" {
				status = metav1.ConditionTrue
			}
			w.mustSay("PlacementSatisfied", status, x.reason, x.message)
		})
	}
}

func TestATolerationExpires(t *testing.T) {
	w := newPlacementWorld(t, "a", "b")
	w.Merge(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-b"}}, `{"spec":{"taints":[{"key":"x","effect":"NoSelect","timeAdded":%q}]}}`, noon.Format(time.RFC3339))
	spec := clusterv1beta1.PlacementSpec{Tolerations: []clusterv1beta1.Toleration{{Key: "x", Operator: "Exists", TolerationSeconds: ptr.To[int64](60)}}}
	if r := w.place(spec); r.RequeueAfter != 0 {
		t.Errorf("a new cluster has a timer of %s already", r.RequeueAfter)
	}
	w.mustDecide("1[0/]=a,b")
	w.clock.SetTime(noon.Add(20 * time.Second))
	if r := w.reconcile(); r.RequeueAfter != 40*time.Second {
		t.Errorf("the timer is for %s, want 40s", r.RequeueAfter)
	}
	w.mustDecide("1[0/]=a,b")
	w.clock.SetTime(noon.Add(time.Minute))
	if r := w.reconcile(); r.RequeueAfter != 0 {
		t.Errorf("there is a timer of %s, but nothing left to expire", r.RequeueAfter)
	}
	w.mustDecide("1[0/]=a")
}

func TestAScoreExpires(t *testing.T) {
	w := newPlacementWorld(t, "a", "b")
	w.makeNamespaces("a", "b")
	for name, value := range map[string]int{"a": 10, "b": 20} {
		s := &clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: w.name + "-" + name, Name: "cost"}}
		w.Make(s)
		until := "null"
		if name == "b" {
			until = fmt.Sprintf("%q", noon.Add(time.Minute).Format(time.RFC3339))
		}
		w.Report(s, `{"status":{"validUntil":%s,"scores":[{"name":"hourly","value":%d}]}}`, until, value)
	}
	r := w.place(clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To[int32](1), PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{
		Mode: clusterv1beta1.PrioritizerPolicyModeExact,
		Configurations: []clusterv1beta1.PrioritizerConfig{{ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{
			Type: clusterv1beta1.ScoreCoordinateTypeAddOn, AddOn: &clusterv1beta1.AddOnScore{ResourceName: "cost", ScoreName: "hourly"},
		}, Weight: ptr.To[int32](1)}},
	}})
	w.mustDecide("1[0/]=b")
	w.clock.SetTime(noon.Add(r.RequeueAfter))
	w.reconcile()
	w.mustDecide("1[0/]=a")
}

func TestOtherPlacementsDecisionsAreBalanced(t *testing.T) {
	w, other := newPlacementWorld(t, "a", "b"), newPlacementWorld(t)
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: other.name, Name: "q-decision-1", Labels: map[string]string{"cluster.open-cluster-management.io/placement": "q"}}}
	other.Make(d)
	other.Report(d, `{"status":{"decisions":[{"clusterName":"%s-a","reason":""}]}}`, w.name)
	w.place(clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To[int32](1)})
	w.mustDecide("1[0/]=b")
}

func TestAFrozenPlacementIsLeftAlone(t *testing.T) {
	w := newPlacementWorld(t, "a")
	w.place(clusterv1beta1.PlacementSpec{})
	w.Merge(w.placement(), `{"metadata":{"annotations":{"cluster.open-cluster-management.io/experimental-scheduling-disable":"true"}}}`)
	w.Make(w.cluster("b"))
	w.reconcile()
	w.mustDecide("1[0/]=a")
	w.Merge(w.placement(), `{"metadata":{"annotations":{"cluster.open-cluster-management.io/experimental-scheduling-disable":"false"}}}`)
	w.reconcile()
	w.mustDecide("1[0/]=a,b")
}

func TestAPlacementThatGoesIsLeftAlone(t *testing.T) {
	ctx := context.Background()
	w := newPlacementWorld(t, "a")
	w.Make(&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "p", Finalizers: []string{"example.com/wait"}}})
	w.Must(w.Delete(ctx, w.placement()))
	w.reconcile()
	w.mustDecide("")
	w.Merge(w.placement(), `{"metadata":{"finalizers":null}}`)
	w.reconcile()
	w.mustDecide("")
}
