package registration_test

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration"
)

func (w *world) mustHaveTaints(keys ...string) {
	w.Helper()
	var got []string
	for _, x := range w.cluster().Spec.Taints {
		got = append(got, x.Key)
	}
	if !slices.Equal(got, keys) {
		w.Errorf("the taints are %q, want %q", got, keys)
	}
}

func TestAClusterIsTaintedByItsAvailability(t *testing.T) {
	const unreachable, unavailable, user = "cluster.open-cluster-management.io/unreachable", "cluster.open-cluster-management.io/unavailable", "example.org/gpu"
	at := metav1.NewTime(noon.Add(-time.Hour))
	w := newWorld(t, func(mc *clusterv1.ManagedCluster) {
		mc.Spec.Taints = []clusterv1.Taint{{Key: user, Value: "a100", Effect: clusterv1.TaintEffectPreferNoSelect, TimeAdded: &at}}
	})
	c, writes := env.Counting(t)
	controller := registration.NewTaints(c)
	for _, x := range []struct {
		status metav1.ConditionStatus
		want   []string
	}{
		{"", []string{user, unreachable}}, // nobody has ever heard of it
		{metav1.ConditionFalse, []string{user, unavailable}},
		{metav1.ConditionUnknown, []string{user, unreachable}},
		{metav1.ConditionTrue, []string{user}},
	} {
		if x.status != "" {
			w.report(available, x.status)
		}
		n := writes.During(func() {
			for range 2 {
				w.reconcile(controller)
			}
		})
		w.mustHaveTaints(x.want...)
		if n != 1 {
			t.Errorf("%d writes for the status %q, want 1", n, x.status)
		}
		for _, have := range w.cluster().Spec.Taints {
			if have.Key == user && (have.Value != "a100" || have.Effect != clusterv1.TaintEffectPreferNoSelect || !have.TimeAdded.Equal(&at)) {
				t.Errorf("the user's taint has become %+v", have)
			}
			// Admission stamps the hub's taints; here there is none.
			if have.Key != user && (have.Value != "" || have.Effect != clusterv1.TaintEffectNoSelect || have.TimeAdded != nil) {
				t.Errorf("the hub's taint is %+v", have)
			}
		}
	}
}

func TestATaintWithItsTimeIsTheSameTaint(t *testing.T) {
	at := metav1.NewTime(noon)
	w := newWorld(t, func(mc *clusterv1.ManagedCluster) {
		mc.Spec.Taints = []clusterv1.Taint{{Key: "cluster.open-cluster-management.io/unreachable", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: &at}}
	})
	c, writes := env.Counting(t)
	w.reconcile(registration.NewTaints(c))
	if writes.Count() != 0 {
		t.Errorf("%d writes", writes.Count())
	}
}

func TestAClusterThatGoesIsNotTainted(t *testing.T) {
	w := newWorld(t, func(mc *clusterv1.ManagedCluster) { mc.Finalizers = []string{holding} })
	w.Must(w.Delete(context.Background(), w.cluster()))
	w.reconcile(registration.NewTaints(w.Client))
	w.mustHaveTaints()
}
