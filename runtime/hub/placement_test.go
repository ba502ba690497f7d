package hub_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// eventually reads an object until check is content.
func eventually[T client.Object](t testing.TB, o T, check func(T) error) T {
	t.Helper()
	c := clientFor(t, admin)
	testkit.Eventually(t, func() error {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		return check(o)
	})
	return o
}

func conditionIs(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, reason, message string) error {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason || c.Message != message {
		return fmt.Errorf("the condition %s is %+v, want %s/%s/%s", kind, c, status, reason, message)
	}
	return nil
}

// set makes a cluster set that goes with the test.
func set(t testing.TB, name string, selector clusterv1beta2.ManagedClusterSelector) *clusterv1beta2.ManagedClusterSet {
	t.Helper()
	s := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1beta2.ManagedClusterSetSpec{ClusterSelector: selector}}
	testkit.Must(t, clientFor(t, admin).Create(context.Background(), s))
	t.Cleanup(func() { _ = clientFor(t, admin).Delete(context.Background(), s) })
	return s
}

// member makes an available cluster in a set: one without the hub's taints.
func member(t testing.TB, set string) string {
	t.Helper()
	name := clusterName(t, "member")
	mc := newCluster(name)
	mc.Labels = map[string]string{cluster.ClusterSetLabel: set}
	c := clientFor(t, admin)
	testkit.Must(t, c.Create(context.Background(), mc))
	available(t, name, metav1.ConditionTrue)
	return name
}

// available reports a cluster's availability, as its agent does.
func available(t testing.TB, name string, status metav1.ConditionStatus) {
	t.Helper()
	c := clientFor(t, admin)
	testkit.Eventually(t, func() error {
		mc := newCluster(name)
		if err := c.Get(context.Background(), types.NamespacedName{Name: name}, mc); err != nil {
			return err
		}
		before := mc.DeepCopy()
		meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: cluster.ConditionAvailable, Status: status, Reason: "Test", Message: ""})
		return c.Status().Patch(context.Background(), mc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	waitForCluster(t, name, func(mc *clusterv1.ManagedCluster) error {
		if tainted := len(mc.Spec.Taints) > 0; tainted == (status == metav1.ConditionTrue) {
			return fmt.Errorf("the cluster is %s and has the taints %v", status, mc.Spec.Taints)
		}
		return nil
	})
}

func TestDefaultAndGlobalSetAreKept(t *testing.T) {
	ctx := context.Background()
	c := clientFor(t, admin)
	byName := func(name string) *clusterv1beta2.ManagedClusterSet {
		return &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	exists := func(*clusterv1beta2.ManagedClusterSet) error { return nil }
	global := eventually(t, byName("global"), exists)
	if s := global.Spec.ClusterSelector; s.SelectorType != clusterv1beta2.LabelSelector || s.LabelSelector == nil {
		t.Errorf("the global set selects by %+v", s)
	}
	uid := eventually(t, byName("default"), exists).UID
	testkit.Must(t, c.Delete(ctx, byName("default")))
	eventually(t, byName("default"), func(s *clusterv1beta2.ManagedClusterSet) error {
		if s.UID == uid {
			return fmt.Errorf("the set is still the old one")
		}
		return nil
	})

	edit := func(annotations string) {
		testkit.Must(t, c.Patch(ctx, byName("global"), client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":%s},"spec":{"clusterSelector":{"selectorType":"ExclusiveClusterSetLabel","labelSelector":null}}}`, annotations))))
	}
	edit(`{}`)
	eventually(t, byName("global"), func(s *clusterv1beta2.ManagedClusterSet) error {
		if s.Spec.ClusterSelector.SelectorType != clusterv1beta2.LabelSelector {
			return fmt.Errorf("the selector was not rolled back: %+v", s.Spec.ClusterSelector)
		}
		return nil
	})
	edit(fmt.Sprintf(`{%q:"false"}`, cluster.AutoUpdateAnnotation))
	// What follows is handled after the edit, by the same controller.
	testkit.Must(t, c.Delete(ctx, byName("default")))
	eventually(t, byName("default"), exists)
	if s := eventually(t, byName("global"), exists); s.Spec.ClusterSelector.SelectorType != clusterv1beta2.ExclusiveClusterSetLabel {
		t.Errorf("the selector was rolled back although the annotation forbids it: %+v", s.Spec.ClusterSelector)
	}
	testkit.Must(t, c.Patch(ctx, byName("global"), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, cluster.AutoUpdateAnnotation))))
}

func TestSetsNameNamespacesToTheirMembers(t *testing.T) {
	s := set(t, "with-namespaces", clusterv1beta2.ManagedClusterSelector{})
	name := member(t, "with-namespaces")
	testkit.Must(t, clientFor(t, admin).Patch(context.Background(), s, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"managedNamespaces":[{"name":"b"},{"name":"a"}]}}`))))
	waitForCluster(t, name, func(mc *clusterv1.ManagedCluster) error {
		var got []string
		for _, n := range mc.Status.ManagedNamespaces {
			got = append(got, n.ClusterSet+"/"+n.Name)
		}
		if !slices.Equal(got, []string{"with-namespaces/a", "with-namespaces/b"}) {
			return fmt.Errorf("the managed namespaces are %v", got)
		}
		return nil
	})
}

func TestPlacementChoosesAndKeepsItsDecisions(t *testing.T) {
	ctx := context.Background()
	c := clientFor(t, admin)
	ns := testenv.Namespace(t, c)
	placement := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}}
	testkit.Must(t, c.Create(ctx, placement))
	satisfied := func(status metav1.ConditionStatus, reason, message string) {
		t.Helper()
		eventually(t, placement, func(p *clusterv1beta1.Placement) error {
			if len(p.Status.Conditions) > 0 && p.Status.Conditions[0].Type != "PlacementMisconfigured" {
				return fmt.Errorf("the first condition is %s", p.Status.Conditions[0].Type)
			}
			return conditionIs(p.Status.Conditions, "PlacementSatisfied", status, reason, message)
		})
	}
	satisfied(metav1.ConditionFalse, "NoManagedClusterSetBindings", "No valid ManagedClusterSetBindings found in placement namespace")

	binding := &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "green"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "green"}}
	testkit.Must(t, c.Create(ctx, binding))
	bound := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		eventually(t, binding, func(b *clusterv1beta2.ManagedClusterSetBinding) error {
			return conditionIs(b.Status.Conditions, "Bound", status, reason, "")
		})
	}
	bound(metav1.ConditionFalse, "ClusterSetNotFound")
	set(t, "green", clusterv1beta2.ManagedClusterSelector{})
	bound(metav1.ConditionTrue, "ClusterSetBound")
	satisfied(metav1.ConditionFalse, "AllManagedClusterSetsEmpty", "All ManagedClusterSets [green] have no member ManagedCluster")

	one, two := member(t, "green"), member(t, "green")
	both := []string{one, two}
	slices.Sort(both)
	decision := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p-decision-1"}}
	decided := func(want ...string) {
		t.Helper()
		eventually(t, decision, func(d *clusterv1beta1.PlacementDecision) error {
			var got []string
			for _, x := range d.Status.Decisions {
				got = append(got, x.ClusterName)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("the decision is %v, want %v", got, want)
			}
			return nil
		})
	}
	decided(both...)
	satisfied(metav1.ConditionTrue, "AllDecisionsScheduled", "All cluster decisions scheduled")
	if l := decision.Labels; l[cluster.PlacementLabel] != "p" || l[cluster.DecisionGroupIndexLabel] != "0" || l[cluster.DecisionGroupNameLabel] != "" {
		t.Errorf("the decision's labels are %v", l)
	}
	if o := decision.OwnerReferences; len(o) != 1 || o[0].Name != "p" || o[0].Controller == nil || !*o[0].Controller {
		t.Errorf("the decision's owners are %+v", o)
	}
	eventually(t, placement, func(p *clusterv1beta1.Placement) error {
		if g := p.Status.DecisionGroups; len(g) != 1 || g[0].ClustersCount != 2 || !slices.Equal(g[0].Decisions, []string{"p-decision-1"}) || p.Status.NumberOfSelectedClusters != 2 {
			return fmt.Errorf("the placement's status is %+v", p.Status)
		}
		return nil
	})

	// What others do to decisions is undone.
	testkit.Must(t, c.Status().Patch(ctx, decision, client.RawPatch(types.MergePatchType, []byte(`{"status":{"decisions":[{"clusterName":"nobody","reason":""}]}}`))))
	decided(both...)
	testkit.Must(t, c.Delete(ctx, decision))
	decided(both...)

	// A cluster that falls silent leaves, and comes back.
	available(t, one, metav1.ConditionUnknown)
	decided(two)
	available(t, one, metav1.ConditionTrue)
	decided(both...)

	// Heartbeats and reports do not concern a placement.
	version := decision.ResourceVersion
	testkit.Must(t, c.Status().Patch(ctx, newCluster(one), client.RawPatch(types.MergePatchType, []byte(`{"status":{"version":{"kubernetes":"v1.99.0"}}}`))))
	testkit.Must(t, c.Patch(ctx, placement, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"numberOfClusters":1}}`))))
	satisfied(metav1.ConditionTrue, "AllDecisionsScheduled", "All cluster decisions scheduled")
	eventually(t, placement, func(p *clusterv1beta1.Placement) error {
		if p.Status.NumberOfSelectedClusters != 1 {
			return fmt.Errorf("%d clusters are chosen, want 1", p.Status.NumberOfSelectedClusters)
		}
		return nil
	})
	eventually(t, decision, func(d *clusterv1beta1.PlacementDecision) error {
		if d.ResourceVersion == version || len(d.Status.Decisions) != 1 {
			return fmt.Errorf("the decision is %+v", d.Status.Decisions)
		}
		return nil
	})

	// Frozen, a placement stays as it is.
	testkit.Must(t, c.Patch(ctx, placement, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}},"spec":{"numberOfClusters":2}}`, cluster.SchedulingDisabledAnnotation))))
	other := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "q"}}
	testkit.Must(t, c.Create(ctx, other))
	eventually(t, other, func(p *clusterv1beta1.Placement) error {
		return conditionIs(p.Status.Conditions, "PlacementSatisfied", metav1.ConditionTrue, "AllDecisionsScheduled", "All cluster decisions scheduled")
	})
	testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(decision), decision))
	if len(decision.Status.Decisions) != 1 {
		t.Errorf("a frozen placement decided again: %+v", decision.Status.Decisions)
	}

	testkit.Eventually(t, func() error {
		events := &eventsv1.EventList{}
		testkit.Must(t, c.List(ctx, events, client.InNamespace(ns)))
		for _, e := range events.Items {
			if e.Reason == "DecisionCreate" && strings.Contains(e.Note, "Decision p-decision-1 is created with placement p in namespace "+ns) {
				return nil
			}
		}
		return fmt.Errorf("no event tells of the decision: %d events", len(events.Items))
	})
}
