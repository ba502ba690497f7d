package hub_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// A cluster set has its status in the answer to the request that creates it, and the
// hub does not write it a second time: not after a create, not after a server-side
// apply, whatever status the client sends along, and for members that are there.
func TestNewClusterSetsHaveTheirStatus(t *testing.T) {
	ctx, c := context.Background(), clientFor(t, admin)
	empty := func(s *clusterv1beta2.ManagedClusterSet) error {
		return conditionIs(s.Status.Conditions, cluster.ConditionClusterSetEmpty, metav1.ConditionTrue, cluster.ReasonNoClusterMatched, cluster.MessageNoClusterMatched)
	}
	selected := func(s *clusterv1beta2.ManagedClusterSet) error {
		return conditionIs(s.Status.Conditions, cluster.ConditionClusterSetEmpty, metav1.ConditionFalse, cluster.ReasonClustersSelected, "1 ManagedClusters selected")
	}
	name := clusterName(t, "first-status")
	apply := func(text string) *clusterv1beta2.ManagedClusterSet {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": clusterv1beta2.GroupVersion.String(), "kind": "ManagedClusterSet",
			"metadata": map[string]any{"name": name + "-applied", "labels": map[string]any{"text": text}},
			"spec":     map[string]any{"clusterSelector": map[string]any{"selectorType": "ExclusiveClusterSetLabel"}},
			"status": map[string]any{"conditions": []any{map[string]any{
				"type": cluster.ConditionClusterSetEmpty, "status": "False", "reason": "Invented", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z",
			}}},
		}}
		testkit.Must(t, c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("first-status"), client.ForceOwnership))
		s := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: u.GetName()}}
		testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(s), s))
		if s.ResourceVersion != u.GetResourceVersion() {
			t.Errorf("the set %s has been written again", s.Name)
		}
		return s
	}

	created := set(t, name, clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.ExclusiveClusterSetLabel})
	testkit.Must(t, empty(created))
	applied := apply("one")
	t.Cleanup(func() { _ = c.Delete(ctx, applied) })
	testkit.Must(t, empty(applied))

	// The hub has looked at both sets once it has looked at a later change of one.
	member(t, name)
	eventually(t, created, selected)
	populated := set(t, name+"-populated", clusterv1beta2.ManagedClusterSelector{
		SelectorType: clusterv1beta2.LabelSelector, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{cluster.ClusterSetLabel: name}},
	})
	testkit.Must(t, selected(populated))
	member(t, applied.Name)
	eventually(t, applied, selected)
	now := &clusterv1beta2.ManagedClusterSet{}
	testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(populated), now))
	if now.ResourceVersion != populated.ResourceVersion {
		t.Errorf("the set %s has been written again:\n%+v\n%+v", now.Name, populated, now)
	}

	// A later apply leaves the status alone.
	testkit.Must(t, selected(apply("two")))
}

// A dry run writes no status either, and an object that is refused counts nowhere.
func TestADryRunOfAClusterSetWritesNothing(t *testing.T) {
	ctx, c := context.Background(), clientFor(t, admin)
	s := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: clusterName(t, "dry")}}
	testkit.Must(t, c.Create(ctx, s, client.DryRunAll))
	if err := c.Get(ctx, client.ObjectKeyFromObject(s), s); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("got %v, want that it is not there", err)
	}
	s = &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	s.Spec.ClusterSelector.SelectorType = "Invented"
	if err := c.Create(ctx, s); err == nil {
		t.Errorf("the set %s was created", s.Name)
	}
}
