package fleet_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// untilSet waits for a cluster set to satisfy a condition.
func untilSet(t testing.TB, name string, check func(*clusterv1beta2.ManagedClusterSet) error) *clusterv1beta2.ManagedClusterSet {
	t.Helper()
	s := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	testkit.Eventually(t, func() error {
		if err := env.Client().Get(context.Background(), client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		return check(s)
	})
	return s
}

func exists(*clusterv1beta2.ManagedClusterSet) error { return nil }

// selecting checks a set's selector.
func selecting(kind clusterv1beta2.SelectorType, byLabels bool) func(*clusterv1beta2.ManagedClusterSet) error {
	return func(s *clusterv1beta2.ManagedClusterSet) error {
		l := s.Spec.ClusterSelector.LabelSelector
		if s.Spec.ClusterSelector.SelectorType != kind || (l != nil) != byLabels || byLabels && len(l.MatchLabels)+len(l.MatchExpressions) > 0 {
			return fmt.Errorf("the selector of %s is %+v", s.Name, s.Spec.ClusterSelector)
		}
		return nil
	}
}

func TestDefaultAndGlobalSetAreMadeAndMadeAgain(t *testing.T) {
	startClusterSets(t)
	for name, right := range map[string]func(*clusterv1beta2.ManagedClusterSet) error{
		"default": selecting(clusterv1beta2.ExclusiveClusterSetLabel, false),
		"global":  selecting(clusterv1beta2.LabelSelector, true),
	} {
		t.Run(name, func(t *testing.T) {
			first := untilSet(t, name, right)
			if err := env.Client().Delete(context.Background(), first.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			untilSet(t, name, func(s *clusterv1beta2.ManagedClusterSet) error {
				if s.UID == first.UID {
					return fmt.Errorf("the set is still the old one")
				}
				return right(s)
			})
		})
	}
}

func TestSelectorsOfDefaultAndGlobalSetAreRolledBack(t *testing.T) {
	startClusterSets(t)
	w := newClusterSetWorld(t)
	for name, x := range map[string]struct {
		set, selector string
		right         func(*clusterv1beta2.ManagedClusterSet) error
	}{
		"global, by its own label": {"global", `{"selectorType":"ExclusiveClusterSetLabel","labelSelector":null}`, selecting(clusterv1beta2.LabelSelector, true)},
		"global, of nothing":       {"global", `{"labelSelector":null}`, selecting(clusterv1beta2.LabelSelector, true)},
		"global, of some":          {"global", `{"labelSelector":{"matchLabels":{"a":"b"}}}`, selecting(clusterv1beta2.LabelSelector, true)},
		"default, of all":          {"default", `{"selectorType":"LabelSelector","labelSelector":{}}`, selecting(clusterv1beta2.ExclusiveClusterSetLabel, false)},
	} {
		t.Run(name, func(t *testing.T) {
			s := untilSet(t, x.set, x.right)
			w.Merge(s.DeepCopy(), `{"spec":{"clusterSelector":%s}}`, x.selector)
			untilSet(t, x.set, func(now *clusterv1beta2.ManagedClusterSet) error {
				if now.Generation < s.Generation+2 {
					return fmt.Errorf("the set was changed %d times, want the change and its roll-back", now.Generation-s.Generation)
				}
				return x.right(now)
			})
		})
	}
}

func TestWhatIsNotASelectorIsNotRolledBack(t *testing.T) {
	startClusterSets(t)
	w := newClusterSetWorld(t)
	s := untilSet(t, "global", selecting(clusterv1beta2.LabelSelector, true))
	w.Merge(s.DeepCopy(), `{"spec":{"managedNamespaces":[{"name":"everywhere"}],"clusterSelector":{"selectorType":"ExclusiveClusterSetLabel","labelSelector":null}}}`)
	defer w.Merge(s.DeepCopy(), `{"spec":{"managedNamespaces":null}}`)
	s = untilSet(t, "global", selecting(clusterv1beta2.LabelSelector, true))
	if len(s.Spec.ManagedNamespaces) != 1 {
		t.Errorf("the namespaces are %+v, want the one that was added", s.Spec.ManagedNamespaces)
	}
}

func TestASetMayOptOutOfTheRollBack(t *testing.T) {
	startClusterSets(t)
	w := newClusterSetWorld(t)
	s := untilSet(t, "global", selecting(clusterv1beta2.LabelSelector, true))
	w.Merge(s.DeepCopy(), `{"metadata":{"annotations":{"cluster.open-cluster-management.io/autoupdate":"false"}},"spec":{"clusterSelector":{"labelSelector":{"matchLabels":{"a":"b"}}}}}`)
	// The same controller handles what follows after the edit.
	uid := untilSet(t, "default", exists).UID
	w.Must(w.Delete(context.Background(), &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "default"}}))
	untilSet(t, "default", func(s *clusterv1beta2.ManagedClusterSet) error {
		if s.UID == uid {
			return fmt.Errorf("the set is still the old one")
		}
		return nil
	})
	if l := untilSet(t, "global", exists).Spec.ClusterSelector.LabelSelector; l == nil || l.MatchLabels["a"] != "b" {
		t.Errorf("the selector was rolled back to %+v", l)
	}
	w.Merge(s.DeepCopy(), `{"metadata":{"annotations":{"cluster.open-cluster-management.io/autoupdate":null}}}`)
	untilSet(t, "global", selecting(clusterv1beta2.LabelSelector, true))
}

func TestASetCountsItsMembers(t *testing.T) {
	startClusterSets(t)
	w := newClusterSetWorld(t)
	said := func(status metav1.ConditionStatus, reason, message string) {
		t.Helper()
		untilSet(t, w.name, func(s *clusterv1beta2.ManagedClusterSet) error {
			c := s.Status.Conditions
			if len(c) != 1 || c[0].Type != "ClusterSetEmpty" || c[0].Status != status || c[0].Reason != reason || c[0].Message != message {
				return fmt.Errorf("the conditions are %+v, want %s/%s/%s", c, status, reason, message)
			}
			return nil
		})
	}
	said(metav1.ConditionTrue, "NoClusterMatched", "No ManagedCluster selected")
	a := testworld.Member(w.name, "a")
	a.Finalizers = []string{"example.com/wait"}
	w.Make(a)
	w.Make(testworld.Member(w.name, "b"))
	said(metav1.ConditionFalse, "ClustersSelected", "2 ManagedClusters selected")
	w.Must(w.Delete(context.Background(), a))
	w.Merge(w.named("b"), `{"metadata":{"labels":{"cluster.open-cluster-management.io/clusterset":"default"}}}`)
	// The one that is being deleted still counts.
	said(metav1.ConditionFalse, "ClustersSelected", "1 ManagedClusters selected")
	w.Merge(w.named("a"), `{"metadata":{"finalizers":null}}`)
	said(metav1.ConditionTrue, "NoClusterMatched", "No ManagedCluster selected")
	w.Merge(w.set(), `{"spec":{"clusterSelector":{"selectorType":"LabelSelector","labelSelector":{"matchLabels":{"name":"b"}}}}}`)
	said(metav1.ConditionFalse, "ClustersSelected", "1 ManagedClusters selected")
}

func TestASetCountsByItsLabels(t *testing.T) {
	startClusterSets(t)
	w := newClusterSetWorld(t, "a", "b")
	for name, x := range map[string]struct {
		labels  *metav1.LabelSelector
		message string
	}{
		"by-labels":  {&metav1.LabelSelector{MatchLabels: map[string]string{cluster.ClusterSetLabel: w.name}}, "2 ManagedClusters selected"},
		"by-nothing": {nil, "No ManagedCluster selected"},
	} {
		s := testworld.Set(w.name + "-" + name)
		s.Spec.ClusterSelector = clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.LabelSelector, LabelSelector: x.labels}
		w.Make(s)
		untilSet(t, s.Name, func(s *clusterv1beta2.ManagedClusterSet) error {
			if c := s.Status.Conditions; len(c) != 1 || c[0].Type != "ClusterSetEmpty" || c[0].Message != x.message {
				return fmt.Errorf("the conditions are %+v, want the message %q", c, x.message)
			}
			return nil
		})
	}
}

func TestABindingSaysWhetherItsSetExists(t *testing.T) {
	ctx := context.Background()
	startClusterSets(t)
	w := newClusterSetWorld(t)
	said := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		b := w.binding()
		testkit.Eventually(t, func() error {
			if err := w.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
				return err
			}
			c := b.Status.Conditions
			if len(c) != 1 || c[0].Type != "Bound" || c[0].Status != status || c[0].Reason != reason || c[0].Message != "" {
				return fmt.Errorf("the conditions are %+v, want %s/%s", c, status, reason)
			}
			return nil
		})
	}
	said(metav1.ConditionTrue, "ClusterSetBound")
	w.Must(w.Delete(ctx, w.set()))
	said(metav1.ConditionFalse, "ClusterSetNotFound")
	w.Make(w.set())
	said(metav1.ConditionTrue, "ClusterSetBound")
}

func TestMembersLearnTheNamespacesOfTheirSets(t *testing.T) {
	ctx := context.Background()
	startClusterSets(t)
	w, other := newClusterSetWorld(t, "a"), newClusterSetWorld(t)
	a := w.named("a")
	learned := func(want ...string) {
		t.Helper()
		testkit.Eventually(t, func() error {
			if err := w.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
				return err
			}
			var got []string
			for _, n := range a.Status.ManagedNamespaces {
				got = append(got, n.ClusterSet+"/"+n.Name)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("the namespaces are %v, want %v", got, want)
			}
			return nil
		})
	}
	w.Merge(w.set(), `{"spec":{"managedNamespaces":[{"name":"b"},{"name":"a"}]}}`)
	learned(w.name+"/a", w.name+"/b")

	// What the agent reports about a namespace outlives what the hub recomputes.
	w.Report(w.named("a"), `{"status":{"managedNamespaces":[{"name":"a","clusterSet":%q,"conditions":[{"type":"NamespaceAvailable","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-01T12:00:00Z"}]},{"name":"b","clusterSet":%q}]}}`, w.name, w.name)
	both := []string{w.name + "/a", w.name + "/b", other.name + "/c"}
	slices.Sort(both)
	w.Merge(other.set(), `{"spec":{"managedNamespaces":[{"name":"c"}],"clusterSelector":{"selectorType":"LabelSelector","labelSelector":{"matchLabels":{"cluster.open-cluster-management.io/clusterset":%q}}}}}`, w.name)
	learned(both...)
	i := slices.IndexFunc(a.Status.ManagedNamespaces, func(n clusterv1.ClusterSetManagedNamespaceConfig) bool { return n.Name == "a" })
	if c := a.Status.ManagedNamespaces[i].Conditions; len(c) != 1 || c[0].Type != "NamespaceAvailable" {
		t.Errorf("the conditions are %+v, want what the agent reported", c)
	}

	w.Merge(w.set(), `{"spec":{"managedNamespaces":[{"name":"b"}]}}`)
	w.Must(w.Delete(ctx, other.set()))
	learned(w.name + "/b")
	w.Merge(w.named("a"), `{"metadata":{"labels":{"cluster.open-cluster-management.io/clusterset":"default"}}}`)
	learned()
}
