package fleet_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/clusterset"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/placement"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// countingClock counts the decisions: each reads the time once.
type countingClock struct {
	clock.RealClock
	read atomic.Int64
}

func (c *countingClock) Now() time.Time {
	c.read.Add(1)
	return c.RealClock.Now()
}

// settle waits until no placement has been decided on for a while. A decision
// causes further ones as its own writes come back; a change made among them
// would be seen without anything having announced it.
func (c *countingClock) settle(t testing.TB) {
	t.Helper()
	const quiet = 20 // looks, 10 ms apart
	last, same := int64(-1), 0
	testkit.Eventually(t, func() error {
		now := c.read.Load()
		if now != last {
			last, same = now, 0
		}
		if same++; same < quiet {
			return fmt.Errorf("placements are still being decided on, the %dth time", now)
		}
		return nil
	})
}

// startControllers runs the controllers of placements and cluster sets until
// the test ends.
func startPlacements(t testing.TB) *countingClock {
	t.Helper()
	clk := &countingClock{}
	env.StartManager(t, func(m manager.Manager) error {
		c := m.GetClient()
		for _, r := range []interface {
			Register(m manager.Manager) error
		}{
			clusterset.NewDefaults(c), clusterset.NewStatus(c, clusterset.NewMembers()), clusterset.NewBindings(c), clusterset.NewNamespaces(c),
			placement.NewController(c, m.GetEventRecorder("placement-controller"), clk, scheduling.Options{}),
		} {
			if err := r.Register(m); err != nil {
				return err
			}
		}
		return nil
	})
	return clk
}

// until waits for the decisions to become what is wanted.
func (w *placementWorld) until(want string) {
	w.Helper()
	w.Eventually(func() error {
		if got := w.summary(); got != want {
			return fmt.Errorf("the decisions are %q, want %q", got, want)
		}
		return nil
	})
}

func (w *placementWorld) named(name string) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + name}}
}

func (w *placementWorld) set() *clusterv1beta2.ManagedClusterSet { return testworld.Set(w.name) }

func (w *placementWorld) binding() *clusterv1beta2.ManagedClusterSetBinding {
	return testworld.Binding(w.name)
}

func TestWhatCausesANewDecision(t *testing.T) {
	ctx := context.Background()
	clk := startPlacements(t)
	costs := clusterv1beta1.PrioritizerPolicy{
		Mode: clusterv1beta1.PrioritizerPolicyModeExact,
		Configurations: []clusterv1beta1.PrioritizerConfig{{ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{
			Type: clusterv1beta1.ScoreCoordinateTypeAddOn, AddOn: &clusterv1beta1.AddOnScore{ResourceName: "cost", ScoreName: "hourly"},
		}, Weight: ptr.To[int32](1)}},
	}
	cpus := clusterv1beta1.PrioritizerPolicy{
		Mode: clusterv1beta1.PrioritizerPolicyModeExact,
		Configurations: []clusterv1beta1.PrioritizerConfig{{
			ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{Type: clusterv1beta1.ScoreCoordinateTypeBuiltIn, BuiltIn: "ResourceAllocatableCPU"}, Weight: ptr.To[int32](1),
		}},
	}
	inTest := []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{ClaimSelector: clusterv1beta1.ClusterClaimSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpIn, Values: []string{"test"}}},
	}}}}
	one := ptr.To[int32](1)
	for name, x := range map[string]struct {
		spec   clusterv1beta1.PlacementSpec
		before string
		change func(w *placementWorld)
		after  string
	}{
		"a new cluster": {before: "1[0/]=a,b", after: "1[0/]=a,b,c", change: func(w *placementWorld) { w.Make(w.cluster("c")) }},
		"a cluster that is deleted": {before: "1[0/]=a,b", after: "1[0/]=a", change: func(w *placementWorld) {
			w.Must(w.Delete(ctx, w.named("b")))
		}},
		"a cluster that changes to another set": {before: "1[0/]=a,b", after: "1[0/]=a", change: func(w *placementWorld) {
			w.Merge(w.named("b"), `{"metadata":{"labels":{"cluster.open-cluster-management.io/clusterset":"default"}}}`)
		}},
		"a taint": {before: "1[0/]=a,b", after: "1[0/]=a", change: func(w *placementWorld) {
			w.Merge(w.named("b"), `{"spec":{"taints":[{"key":"x","effect":"NoSelect","timeAdded":"2026-01-01T12:00:00Z"}]}}`)
		}},
		"a claim": {spec: clusterv1beta1.PlacementSpec{Predicates: inTest}, before: "1[0/]=", after: "1[0/]=b", change: func(w *placementWorld) {
			w.Report(w.named("b"), `{"status":{"clusterClaims":[{"name":"env","value":"test"}]}}`)
		}},
		"more of a resource": {spec: clusterv1beta1.PlacementSpec{NumberOfClusters: one, PrioritizerPolicy: cpus}, before: "1[0/]=a", after: "1[0/]=b", change: func(w *placementWorld) {
			w.Report(w.named("b"), `{"status":{"capacity":{"cpu":"8"},"allocatable":{"cpu":"8"}}}`)
		}},
		"a score": {spec: clusterv1beta1.PlacementSpec{NumberOfClusters: one, PrioritizerPolicy: costs}, before: "1[0/]=a", after: "1[0/]=b", change: func(w *placementWorld) {
			w.makeNamespaces("b")
			s := &clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: w.name + "-b", Name: "cost"}}
			w.Make(s)
			w.Report(s, `{"status":{"scores":[{"name":"hourly","value":10}]}}`)
		}},
		"a set that selects others": {before: "1[0/]=a,b", after: "1[0/]=b", change: func(w *placementWorld) {
			w.Merge(w.set(), `{"spec":{"clusterSelector":{"selectorType":"LabelSelector","labelSelector":{"matchLabels":{"name":"b","cluster.open-cluster-management.io/clusterset":%q}}}}}`, w.name)
		}},
		"a set that is deleted":     {before: "1[0/]=a,b", after: "1[0/]=", change: func(w *placementWorld) { w.Must(w.Delete(ctx, w.set())) }},
		"a binding that is deleted": {before: "1[0/]=a,b", after: "1[0/]=", change: func(w *placementWorld) { w.Must(w.Delete(ctx, w.binding())) }},
		"another spec": {before: "1[0/]=a,b", after: "1[0/]=a", change: func(w *placementWorld) {
			w.Merge(w.placement(), `{"spec":{"numberOfClusters":1}}`)
		}},
		"an edited decision": {before: "1[0/]=a,b", after: "1[0/]=a,b", change: func(w *placementWorld) {
			d := w.decisions()[0]
			w.Report(&d, `{"status":{"decisions":[]}}`)
		}},
		"a decision without its labels": {before: "1[0/]=a,b", after: "1[0/]=a,b", change: func(w *placementWorld) {
			d := w.decisions()[0]
			w.Merge(&d, `{"metadata":{"labels":null}}`)
		}},
		"a deleted decision": {before: "1[0/]=a,b", after: "1[0/]=a,b", change: func(w *placementWorld) {
			d := w.decisions()[0]
			w.Must(w.Delete(ctx, &d))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPlacementWorld(t, "a", "b")
			w.Make(&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "p"}, Spec: x.spec})
			w.until(x.before)
			clk.settle(t)
			x.change(w)
			w.until(x.after)
		})
	}
}

// A status that is not what its controller last wrote can be somebody's edit.
// It can also be what the controller wrote while its cache was behind: then the
// next look, at an outdated copy, found nothing to do. Both are put right.
func TestAStatusThatIsWrongIsPutRight(t *testing.T) {
	clk := startPlacements(t)
	w := newPlacementWorld(t, "a")
	w.Merge(w.set(), `{"spec":{"managedNamespaces":[{"name":"apps"}]}}`)
	w.Make(&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "p"}})
	condition := func(conditions []metav1.Condition, kind string, want metav1.ConditionStatus) error {
		for _, c := range conditions {
			if c.Type == kind && c.Status == want && c.Reason != "Wrong" {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v, want %s to be %s", conditions, kind, want)
	}
	const wrong = `{"status":{"conditions":[{"type":%q,"status":%q,"reason":"Wrong","message":"","lastTransitionTime":"2026-01-01T12:00:00Z"}]}}`
	for name, x := range map[string]struct {
		object client.Object
		right  func(client.Object) error
		wrong  string
	}{
		"of a set": {w.set(), func(o client.Object) error {
			return condition(o.(*clusterv1beta2.ManagedClusterSet).Status.Conditions, "ClusterSetEmpty", metav1.ConditionFalse)
		}, fmt.Sprintf(wrong, "ClusterSetEmpty", "True")},
		"of a binding": {w.binding(), func(o client.Object) error {
			return condition(o.(*clusterv1beta2.ManagedClusterSetBinding).Status.Conditions, "Bound", metav1.ConditionTrue)
		}, fmt.Sprintf(wrong, "Bound", "False")},
		"of a placement": {w.placement(), func(o client.Object) error {
			s := o.(*clusterv1beta1.Placement).Status
			if s.NumberOfSelectedClusters != 1 || len(s.DecisionGroups) != 1 {
				return fmt.Errorf("the status is %+v", s)
			}
			return condition(s.Conditions, "PlacementSatisfied", metav1.ConditionTrue)
		}, `{"status":{"numberOfSelectedClusters":7,"decisionGroups":null}}`},
		"of a cluster's namespaces": {w.named("a"), func(o client.Object) error {
			n := o.(*clusterv1.ManagedCluster).Status.ManagedNamespaces
			if len(n) != 1 || n[0].Name != "apps" || n[0].ClusterSet != w.name {
				return fmt.Errorf("the namespaces are %+v", n)
			}
			return nil
		}, `{"status":{"managedNamespaces":null}}`},
	} {
		t.Run(name, func(t *testing.T) {
			isRight := func() error {
				if err := w.Get(context.Background(), client.ObjectKeyFromObject(x.object), x.object); err != nil {
					return err
				}
				return x.right(x.object)
			}
			testkit.Eventually(t, isRight)
			clk.settle(t)
			w.Report(x.object.DeepCopyObject().(client.Object), "%s", x.wrong)
			testkit.Eventually(t, isRight)
		})
	}
}

func TestWhatPlacementsDoNotReadCausesNoDecision(t *testing.T) {
	clk := startPlacements(t)
	w := newPlacementWorld(t, "a")
	w.Make(&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "p"}, Spec: clusterv1beta1.PlacementSpec{
		Predicates: []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{LabelSelector: metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"b"}}},
		}}}},
	}})
	w.until("1[0/]=a")
	for name, change := range map[string]func(){
		"a version":       func() { w.Report(w.named("a"), `{"status":{"version":{"kubernetes":"v1.99.0"}}}`) },
		"a label":         func() { w.Merge(w.named("a"), `{"metadata":{"labels":{"team":"x"}}}`) },
		"a label's value": func() { w.Merge(w.named("a"), `{"metadata":{"labels":{"name":"c"}}}`) },
		"an unread score": func() {
			w.makeNamespaces("a")
			w.Make(&clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: w.name + "-a", Name: "cost"}})
		},
		"an unread claim":  func() { w.Report(w.named("a"), `{"status":{"clusterClaims":[{"name":"env","value":"test"}]}}`) },
		"more of resource": func() { w.Report(w.named("a"), `{"status":{"capacity":{"cpu":"8"},"allocatable":{"cpu":"8"}}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			clk.settle(t)
			before := clk.read.Load()
			change()
			clk.settle(t)
			if n := clk.read.Load() - before; n != 0 {
				t.Errorf("it caused %d decisions", n)
			}
		})
	}
}
