package incremental_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling/incremental"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func requiring(operator metav1.LabelSelectorOperator, key string, values ...string) []metav1.LabelSelectorRequirement {
	return []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}
}

func selecting(s clusterv1beta1.ClusterSelector) clusterv1beta1.PlacementSpec {
	return clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: s}}}
}

func ranking(c clusterv1beta1.ScoreCoordinate) clusterv1beta1.PlacementSpec {
	return clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To[int32](1), PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{
		Configurations: []clusterv1beta1.PrioritizerConfig{{ScoreCoordinate: &c, Weight: ptr.To[int32](1)}},
	}}
}

// examples are placements that each read something else.
func examples() map[string]clusterv1beta1.PlacementSpec {
	labelled := func(operator metav1.LabelSelectorOperator, key string, values ...string) clusterv1beta1.PlacementSpec {
		return selecting(clusterv1beta1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchExpressions: requiring(operator, key, values...)}})
	}
	return map[string]clusterv1beta1.PlacementSpec{
		"all":      {},
		"in":       labelled(metav1.LabelSelectorOpIn, "env", "dev"),
		"notin":    labelled(metav1.LabelSelectorOpNotIn, "env", "test"),
		"exists":   labelled(metav1.LabelSelectorOpExists, "tier"),
		"missing":  labelled(metav1.LabelSelectorOpDoesNotExist, "gpu"),
		"claiming": selecting(clusterv1beta1.ClusterSelector{ClaimSelector: clusterv1beta1.ClusterClaimSelector{MatchExpressions: requiring(metav1.LabelSelectorOpIn, "platform", "aws")}}),
		"both": selecting(clusterv1beta1.ClusterSelector{
			LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "dev", "region": "eu"}},
		}),
		"cel": selecting(clusterv1beta1.ClusterSelector{CELSelector: clusterv1beta1.ClusterCELSelector{CELExpressions: []string{`managedCluster.metadata.name != ""`}}}),
		"cpu": ranking(clusterv1beta1.ScoreCoordinate{Type: "BuiltIn", BuiltIn: "ResourceAllocatableCPU"}),
		"cost": ranking(clusterv1beta1.ScoreCoordinate{Type: "AddOn", AddOn: &clusterv1beta1.AddOnScore{
			ResourceName: "cost", ScoreName: "hourly",
		}}),
		"groups": {DecisionStrategy: clusterv1beta1.DecisionStrategy{GroupStrategy: clusterv1beta1.GroupStrategy{DecisionGroups: []clusterv1beta1.DecisionGroup{{
			GroupName: "canary", GroupClusterSelector: clusterv1beta1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}},
		}}}}},
		"spread": {NumberOfClusters: ptr.To[int32](1), SpreadPolicy: clusterv1beta1.SpreadPolicy{SpreadConstraints: []clusterv1beta1.SpreadConstraintsTerm{{
			TopologyKey: "zone", TopologyKeyType: clusterv1beta1.TopologyKeyTypeLabel, MaxSkew: 1,
		}}}},
		// Of another set than the cluster's.
		"elsewhere": {ClusterSets: []string{"other"}},
	}
}

// one makes an engine with the cluster "c" of the set "main" and the examples.
func one(t *testing.T) (*incremental.Engine, *clusterv1.ManagedCluster) {
	t.Helper()
	e := incremental.New(scheduling.Options{})
	for _, name := range []string{"main", "other"} {
		e.UpsertSet(&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}})
		e.UpsertBinding(types.NamespacedName{Namespace: "ns", Name: name})
	}
	c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "1", Labels: map[string]string{
		cluster.ClusterSetLabel: "main", "env": "dev", "tier": "gold", "zone": "1",
	}}}
	c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "platform", Value: "aws"}}
	c.Status.Capacity = clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse("2")}
	c.Status.Allocatable = clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse("1")}
	e.UpsertCluster(c)
	// Not the only one, so that it makes no set empty by leaving.
	for _, name := range []string{"main", "other"} {
		e.UpsertCluster(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "one-of-" + name, Labels: map[string]string{cluster.ClusterSetLabel: name}}})
	}
	for name, spec := range examples() {
		p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: spec}
		e.UpsertPlacement(p)
		if _, ok := e.Schedule(types.NamespacedName{Namespace: "ns", Name: name}, noon); !ok {
			t.Fatalf("%s is not known", name)
		}
	}
	return e, c
}

func namesOf(keys []types.NamespacedName) string {
	out := make([]string, 0, len(keys))
	for _, k := range keys {
		out = append(out, k.Name)
	}
	return strings.Join(out, " ")
}

// inMain are the examples that choose from the cluster's set and that the
// cluster satisfies, and everyone those that choose from it.
const (
	inMain   = "all cel claiming cost cpu exists groups in missing notin spread"
	everyone = "all both cel claiming cost cpu exists groups in missing notin spread"
)

func TestWhomAChangeOfAClusterConcerns(t *testing.T) {
	set := func(key, value string) func(*clusterv1.ManagedCluster) {
		return func(c *clusterv1.ManagedCluster) {
			if c.Labels[key] = value; value == "" {
				delete(c.Labels, key)
			}
		}
	}
	for name, x := range map[string]struct {
		change func(*clusterv1.ManagedCluster)
		want   string
	}{
		"none":                            {func(*clusterv1.ManagedCluster) {}, "cel"},
		"a label that nobody reads":       {set("team", "a"), "cel"},
		"a value in a list":               {set("env", "prod"), "cel in"},
		"a value not in a list":           {set("env", "test"), "cel in notin"},
		"no value in a list":              {set("env", ""), "cel in"},
		"another value where any will do": {set("tier", "silver"), "cel"},
		"no value where any will do":      {set("tier", ""), "cel exists"},
		"a key that must not be":          {set("gpu", "a100"), "cel missing"},
		"half of what is asked for":       {set("region", "us"), "cel"},
		"all of what is asked for":        {set("region", "eu"), "both cel"},
		"a label that groups":             {set("canary", "true"), "cel groups"},
		"a label that spreads":            {set("zone", "2"), "cel spread"},
		"another set":                     {set(cluster.ClusterSetLabel, "other"), "all cel claiming cost cpu elsewhere exists groups in missing notin spread"},
		"no set":                          {set(cluster.ClusterSetLabel, ""), inMain},
		"a taint": {func(c *clusterv1.ManagedCluster) {
			c.Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectNoSelect}}
		}, inMain},
		"a claim": {func(c *clusterv1.ManagedCluster) { c.Status.ClusterClaims[0].Value = "gcp" }, "cel claiming"},
		"a claim that nobody reads": {func(c *clusterv1.ManagedCluster) {
			c.Status.ClusterClaims = append(c.Status.ClusterClaims, clusterv1.ManagedClusterClaim{Name: "id", Value: "1"})
		}, "cel"},
		"allocatable": {func(c *clusterv1.ManagedCluster) {
			c.Status.Allocatable[clusterv1.ResourceCPU] = resource.MustParse("2")
		}, "cel cpu"},
		"capacity that is missing": {func(c *clusterv1.ManagedCluster) { c.Status.Capacity = nil }, "cel cpu"},
		"more capacity": {func(c *clusterv1.ManagedCluster) {
			c.Status.Capacity[clusterv1.ResourceCPU] = resource.MustParse("4")
		}, "cel"},
		"another way to write it": {func(c *clusterv1.ManagedCluster) {
			c.Status.Allocatable[clusterv1.ResourceCPU] = resource.MustParse("1000m")
		}, "cel"},
		"a version":     {func(c *clusterv1.ManagedCluster) { c.Status.Version.Kubernetes = "v1.99.0" }, "cel"},
		"a condition":   {func(c *clusterv1.ManagedCluster) { c.Status.Conditions = []metav1.Condition{{Type: "a"}} }, "cel"},
		"acceptance":    {func(c *clusterv1.ManagedCluster) { c.Spec.HubAcceptsClient = ptr.To(true) }, "cel"},
		"an annotation": {func(c *clusterv1.ManagedCluster) { c.Annotations = map[string]string{"a": "b"} }, "cel"},
		"a deletion":    {func(c *clusterv1.ManagedCluster) { c.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }, inMain},
	} {
		t.Run(name, func(t *testing.T) {
			e, c := one(t)
			c = c.DeepCopy()
			c.ResourceVersion = "2"
			x.change(c)
			if got := namesOf(e.UpsertCluster(c)); got != x.want {
				t.Errorf("concerned are %q, want %q", got, x.want)
			}
		})
	}
}

func TestTheSameOnceMoreConcernsNobody(t *testing.T) {
	e, c := one(t)
	if got := namesOf(e.UpsertCluster(c.DeepCopy())); got != "" {
		t.Errorf("concerned are %q, want none", got)
	}
}

func TestWhomOtherChangesConcern(t *testing.T) {
	score := &clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: "c", Name: "cost"}}
	score.Status.Scores = []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "hourly", Value: 1}}
	for name, x := range map[string]struct {
		change func(*incremental.Engine) []types.NamespacedName
		want   string
	}{
		"a cluster that is gone":    {func(e *incremental.Engine) []types.NamespacedName { return e.DeleteCluster("c") }, inMain},
		"the last cluster of a set": {func(e *incremental.Engine) []types.NamespacedName { return e.DeleteCluster("one-of-other") }, "all cel cost cpu elsewhere groups missing notin spread"},
		"a cluster that satisfies few": {func(e *incremental.Engine) []types.NamespacedName {
			return e.UpsertCluster(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "d", Labels: map[string]string{cluster.ClusterSetLabel: "main", "gpu": "a100", "env": "test"}}})
		}, "all cel cost cpu groups spread"},
		"a cluster of no set": {func(e *incremental.Engine) []types.NamespacedName {
			return e.UpsertCluster(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "d"}})
		}, ""},
		"a score": {func(e *incremental.Engine) []types.NamespacedName { return e.UpsertScore(score) }, "cel cost"},
		"a score of another name": {func(e *incremental.Engine) []types.NamespacedName {
			return e.UpsertScore(&clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: "c", Name: "load"}})
		}, "cel"},
		"a score of a cluster that is not there": {func(e *incremental.Engine) []types.NamespacedName {
			return e.UpsertScore(&clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "cost"}})
		}, ""},
		"the same score once more": {func(e *incremental.Engine) []types.NamespacedName {
			e.UpsertScore(score)
			return e.UpsertScore(score.DeepCopy())
		}, ""},
		"a set without the cluster": {func(e *incremental.Engine) []types.NamespacedName {
			return e.UpsertSet(&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "main"}, Spec: clusterv1beta2.ManagedClusterSetSpec{
				ClusterSelector: clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.LabelSelector, LabelSelector: &metav1.LabelSelector{MatchExpressions: requiring(metav1.LabelSelectorOpDoesNotExist, "env")}},
			}})
		}, inMain},
		"a set that selects the same": {func(e *incremental.Engine) []types.NamespacedName {
			return e.UpsertSet(&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "main"}, Spec: clusterv1beta2.ManagedClusterSetSpec{
				ManagedNamespaces: []clusterv1beta2.ManagedNamespaceConfig{{Name: "apps"}},
			}})
		}, ""},
		"a set that is not bound": {func(e *incremental.Engine) []types.NamespacedName {
			return e.UpsertSet(&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "third"}})
		}, ""},
		"a set that is gone": {func(e *incremental.Engine) []types.NamespacedName { return e.DeleteSet("main") }, everyone},
		"a binding that is gone": {func(e *incremental.Engine) []types.NamespacedName {
			return e.DeleteBinding(types.NamespacedName{Namespace: "ns", Name: "main"})
		}, everyone},
		"a binding of another namespace": {func(e *incremental.Engine) []types.NamespacedName {
			return e.UpsertBinding(types.NamespacedName{Namespace: "another", Name: "main"})
		}, ""},
		"a placement": {func(e *incremental.Engine) []types.NamespacedName {
			return e.UpsertPlacement(&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "new"}})
		}, "new"},
		"a decision": {func(e *incremental.Engine) []types.NamespacedName {
			return e.UpsertDecision(&clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "cpu-decision-1", Labels: map[string]string{cluster.PlacementLabel: "cost"},
			}})
		}, "cost cpu"},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := one(t)
			if got := namesOf(x.change(e)); got != x.want {
				t.Errorf("concerned are %q, want %q", got, x.want)
			}
		})
	}
}
