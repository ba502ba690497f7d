package incremental_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// dice makes random objects out of few names and values, so that they have much
// to do with each other.
type dice struct {
	*rand.Rand
	// size is how many names of clusters there are, wishes of placements.
	size, wishes int
	// made numbers what has been made.
	made int
}

// one in n.
func (d *dice) one(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d *dice, of ...T) T { return of[d.IntN(len(of))] }

func (d *dice) key() string         { return pick(d, "env", "region", "tier", "zone", "unused") }
func (d *dice) value() string       { return pick(d, "a", "b", "c", "d") }
func (d *dice) clusterName() string { return fmt.Sprintf("cluster-%03d", d.IntN(d.size)) }
func (d *dice) setName() string     { return fmt.Sprintf("set-%d", d.IntN(6)) }
func (d *dice) namespace() string   { return fmt.Sprintf("ns-%d", d.IntN(6)) }
func (d *dice) placementKey() types.NamespacedName {
	i := d.IntN(d.wishes)
	return types.NamespacedName{Namespace: fmt.Sprintf("ns-%d", i%6), Name: fmt.Sprintf("p%d", i)}
}

func (d *dice) labels() map[string]string {
	out := map[string]string{}
	for range d.IntN(4) {
		out[d.key()] = d.value()
	}
	if !d.one(6) {
		out[cluster.ClusterSetLabel] = d.setName()
	}
	return out
}

func (d *dice) claims() []clusterv1.ManagedClusterClaim {
	var out []clusterv1.ManagedClusterClaim
	for _, name := range []string{"env", "region", "zone"} {
		if d.one(2) {
			out = append(out, clusterv1.ManagedClusterClaim{Name: name, Value: d.value()})
		}
	}
	return out
}

func (d *dice) taints(now time.Time) []clusterv1.Taint {
	var out []clusterv1.Taint
	for _, key := range []string{"x", "y"} {
		if d.one(4) {
			out = append(out, clusterv1.Taint{
				Key: key, Value: pick(d, "", "a"), TimeAdded: ptr.To(metav1.NewTime(now.Add(-time.Duration(d.IntN(60)) * time.Second))),
				Effect: pick(d, clusterv1.TaintEffectNoSelect, clusterv1.TaintEffectNoSelect, clusterv1.TaintEffectNoSelectIfNew, clusterv1.TaintEffectPreferNoSelect),
			})
		}
	}
	return out
}

func (d *dice) amounts() clusterv1.ResourceList {
	out := clusterv1.ResourceList{}
	if !d.one(5) {
		out[clusterv1.ResourceCPU] = *resource.NewMilliQuantity(int64(500*d.IntN(12)), resource.DecimalSI)
	}
	if !d.one(5) {
		out[clusterv1.ResourceMemory] = *resource.NewQuantity(int64(d.IntN(64))<<30, resource.BinarySI)
	}
	return out
}

func (d *dice) cluster(name string, now time.Time) *clusterv1.ManagedCluster {
	c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: d.labels()}}
	c.Spec.Taints = d.taints(now)
	c.Status.ClusterClaims = d.claims()
	c.Status.Allocatable, c.Status.Capacity = d.amounts(), d.amounts()
	return c
}

func (d *dice) labelSelector() metav1.LabelSelector {
	var out metav1.LabelSelector
	if d.one(2) {
		out.MatchLabels = map[string]string{d.key(): d.value()}
	}
	if d.one(2) {
		out.MatchExpressions = d.requirements()
	}
	return out
}

func (d *dice) requirements() []metav1.LabelSelectorRequirement {
	r := metav1.LabelSelectorRequirement{Key: d.key(), Operator: pick(d, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
	if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
		r.Values = []string{d.value(), d.value()}
	}
	if d.one(60) {
		r.Operator = "Like"
	}
	return []metav1.LabelSelectorRequirement{r}
}

func (d *dice) set(name string) *clusterv1beta2.ManagedClusterSet {
	s := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	switch d.IntN(5) {
	case 0:
		s.Spec.ClusterSelector = clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.LabelSelector, LabelSelector: ptr.To(d.labelSelector())}
	case 1:
		s.Spec.ClusterSelector = clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.LabelSelector, LabelSelector: &metav1.LabelSelector{}}
	case 2:
		if d.one(4) {
			s.Spec.ClusterSelector.SelectorType = "Luck"
		}
	}
	return s
}

func (d *dice) predicate() clusterv1beta1.ClusterPredicate {
	var p clusterv1beta1.ClusterPredicate
	s := &p.RequiredClusterSelector
	if !d.one(4) {
		s.LabelSelector = d.labelSelector()
	}
	if d.one(3) {
		s.ClaimSelector.MatchExpressions = d.requirements()
	}
	if d.one(10) {
		s.CELSelector.CELExpressions = []string{pick(d,
			`managedCluster.metadata.labels["env"] == "a"`,
			`has(managedCluster.metadata.annotations) && managedCluster.metadata.annotations["note"] == "b"`,
			`managedCluster.status.conditions.exists(c, c.type == "Joined" && c.status == "True")`,
			`managedCluster.scores("cost").exists(s, s.name == "hourly" && s.value > 0)`,
			`quantity(managedCluster.status.allocatable["cpu"]).isGreaterThan(quantity("2"))`,
		)}
	}
	return p
}

func (d *dice) spec() clusterv1beta1.PlacementSpec {
	var s clusterv1beta1.PlacementSpec
	if d.one(3) {
		s.ClusterSets = []string{d.setName(), d.setName()}
	}
	if !d.one(3) {
		s.NumberOfClusters = ptr.To(int32(d.IntN(12)))
	}
	for range d.IntN(3) {
		s.Predicates = append(s.Predicates, d.predicate())
	}
	for range d.IntN(3) {
		s.Tolerations = append(s.Tolerations, d.toleration())
	}
	s.PrioritizerPolicy = d.policy()
	if d.one(4) {
		s.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = pick(d, intstr.FromInt32(2), intstr.FromInt32(5), intstr.FromString("34%"), intstr.FromString("half"))
	}
	if d.one(4) {
		s.DecisionStrategy.GroupStrategy.DecisionGroups = []clusterv1beta1.DecisionGroup{{GroupName: "canary", GroupClusterSelector: clusterv1beta1.GroupClusterSelector{LabelSelector: d.labelSelector()}}}
	}
	if d.one(6) {
		s.SortBy = clusterv1beta1.PlacementSortByScore
	}
	if d.one(6) {
		s.SpreadPolicy.SpreadConstraints = []clusterv1beta1.SpreadConstraintsTerm{{
			TopologyKey: d.key(), TopologyKeyType: pick(d, clusterv1beta1.TopologyKeyTypeLabel, clusterv1beta1.TopologyKeyTypeClaim), MaxSkew: int32(1 + d.IntN(2)),
			WhenUnsatisfiable: pick(d, clusterv1beta1.DoNotSchedule, clusterv1beta1.ScheduleAnyway),
		}}
	}
	return s
}

func (d *dice) toleration() clusterv1beta1.Toleration {
	t := clusterv1beta1.Toleration{Key: pick(d, "x", "y"), Operator: clusterv1beta1.TolerationOpExists}
	switch d.IntN(6) {
	case 0:
		t.Operator, t.Value = clusterv1beta1.TolerationOpEqual, "a"
	case 1:
		t.Key = ""
	case 2:
		t.Effect = clusterv1.TaintEffectNoSelect
	case 3:
		if d.one(8) {
			t.Key, t.Operator = "", ""
		}
	}
	if d.one(2) {
		t.TolerationSeconds = ptr.To(int64(d.IntN(120)))
	}
	return t
}

func (d *dice) policy() clusterv1beta1.PrioritizerPolicy {
	p := clusterv1beta1.PrioritizerPolicy{Mode: pick(d, "", clusterv1beta1.PrioritizerPolicyModeAdditive, clusterv1beta1.PrioritizerPolicyModeExact)}
	for range d.IntN(3) {
		c := &clusterv1beta1.ScoreCoordinate{Type: clusterv1beta1.ScoreCoordinateTypeBuiltIn, BuiltIn: pick(d, "Balance", "Steady", "ResourceAllocatableCPU", "ResourceAllocatableMemory")}
		if d.one(3) {
			c = &clusterv1beta1.ScoreCoordinate{Type: clusterv1beta1.ScoreCoordinateTypeAddOn, AddOn: &clusterv1beta1.AddOnScore{ResourceName: pick(d, "cost", "load"), ScoreName: pick(d, "hourly", "daily")}}
		}
		if d.one(60) {
			c.BuiltIn, c.Type = "Luck", clusterv1beta1.ScoreCoordinateTypeBuiltIn
		}
		p.Configurations = append(p.Configurations, clusterv1beta1.PrioritizerConfig{ScoreCoordinate: c, Weight: ptr.To(int32(d.IntN(7) - 3))})
	}
	return p
}

func (d *dice) placement(key types.NamespacedName) *clusterv1beta1.Placement {
	d.made++
	return &clusterv1beta1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: types.UID(fmt.Sprint("uid-", d.made)), Generation: 1},
		Spec:       d.spec(),
	}
}

func (d *dice) score(key types.NamespacedName, now time.Time) *clusterv1alpha1.AddOnPlacementScore {
	s := &clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	for _, name := range []string{"hourly", "daily"} {
		if !d.one(4) {
			s.Status.Scores = append(s.Status.Scores, clusterv1alpha1.AddOnPlacementScoreItem{Name: name, Value: int32(d.IntN(41) - 20)})
		}
	}
	if d.one(2) {
		s.Status.ValidUntil = ptr.To(metav1.NewTime(now.Add(time.Duration(d.IntN(120)-10) * time.Second)))
	}
	return s
}
