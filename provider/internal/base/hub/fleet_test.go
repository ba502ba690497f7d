package hub

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// testFleet has the clusters a to d; d is in another set; both sets are
// bound to the namespace n.
func testFleet() *Fleet {
	f := &Fleet{Snapshot: scheduling.Snapshot{Now: time.Unix(1_000_000, 0)}, Spreads: true}
	for i, name := range []string{"a", "b", "c", "d"} {
		c := clusterv1.ManagedCluster{}
		c.Name = name
		c.Labels = map[string]string{cluster.ClusterSetLabel: []string{"one", "one", "one", "two"}[i], "region": []string{"eu", "eu", "us", "us"}[i]}
		f.Clusters = append(f.Clusters, c)
	}
	for _, name := range []string{"one", "two"} {
		set, binding := clusterv1beta2.ManagedClusterSet{}, clusterv1beta2.ManagedClusterSetBinding{}
		set.Name, binding.Name, binding.Namespace = name, name, "n"
		f.Sets, f.Bindings = append(f.Sets, set), append(f.Bindings, binding)
	}
	return f
}

// decide notes that a placement has clusters.
func decide(f *Fleet, namespace, placement string, clusters ...string) {
	d := clusterv1beta1.PlacementDecision{}
	d.Namespace, d.Name, d.Labels = namespace, placement+"-decision-1", map[string]string{cluster.PlacementLabel: placement}
	for _, name := range clusters {
		d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: name})
	}
	f.Decisions = append(f.Decisions, d)
}

func testPlacement(spec clusterv1beta1.PlacementSpec) *clusterv1beta1.Placement {
	p := &clusterv1beta1.Placement{Spec: spec}
	p.Namespace, p.Name = "n", "p"
	return p
}

func TestAPreviewIsOfTheFleet(t *testing.T) {
	two := clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To[int32](2)}
	spread := two
	spread.SpreadPolicy.SpreadConstraints = []clusterv1beta1.SpreadConstraintsTerm{{TopologyKey: "region", TopologyKeyType: "Label", MaxSkew: 1, WhenUnsatisfiable: "DoNotSchedule"}}
	scored := clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To[int32](1), PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{Mode: "Exact", Configurations: []clusterv1beta1.PrioritizerConfig{
		{ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{Type: "AddOn", AddOn: &clusterv1beta1.AddOnScore{ResourceName: "cost", ScoreName: "hourly"}}},
	}}}
	for name, test := range map[string]struct {
		change                   func(*Fleet)
		spec                     clusterv1beta1.PlacementSpec
		clusters, added, dropped string
	}{
		"all of the bound sets":              {nil, clusterv1beta1.PlacementSpec{}, "a b c d", "a b c d", ""},
		"of the sets that are named":         {nil, clusterv1beta1.PlacementSpec{ClusterSets: []string{"two"}}, "d", "d", ""},
		"not of another namespace's binding": {func(f *Fleet) { f.Bindings[1].Namespace = "m" }, clusterv1beta1.PlacementSpec{}, "a b c", "a b c", ""},
		"not of a set that is gone":          {func(f *Fleet) { f.Sets = f.Sets[:1] }, clusterv1beta1.PlacementSpec{}, "a b c", "a b c", ""},
		"its clusters stay":                  {func(f *Fleet) { decide(f, "n", "p", "c", "d") }, two, "c d", "", ""},
		"it drops what is too many":          {func(f *Fleet) { decide(f, "n", "p", "b", "c", "d") }, two, "b c", "", "d"},
		"a cluster that is gone is dropped":  {func(f *Fleet) { decide(f, "n", "p", "x") }, two, "a b", "a b", "x"},
		"others' clusters come last":         {func(f *Fleet) { decide(f, "m", "p", "a"); decide(f, "n", "q", "b") }, two, "c d", "c d", ""},
		"known by its decision's name alone": {func(f *Fleet) { decide(f, "n", "p", "d"); f.Decisions[0].Labels = nil }, two, "a d", "a", ""},
		"known by its decision's label":      {func(f *Fleet) { decide(f, "n", "p", "d"); f.Decisions[0].Name = "another" }, two, "a d", "a", ""},
		"spread":                             {nil, spread, "a c", "a c", ""},
		"not spread by an upstream hub":      {func(f *Fleet) { f.Spreads = false }, spread, "a b", "a b", ""},
		"by an add-on's score": {func(f *Fleet) {
			s := clusterv1alpha1.AddOnPlacementScore{}
			s.Namespace, s.Name, s.Status.Scores = "c", "cost", []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "hourly", Value: 7}}
			f.Scores = append(f.Scores, s)
		}, scored, "c", "c", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := testFleet()
			if test.change != nil {
				test.change(f)
			}
			p := f.Preview(testPlacement(test.spec), false)
			if got, want := fmt.Sprint(p.Clusters, p.Added, p.Dropped), fmt.Sprint(strings.Fields(test.clusters), strings.Fields(test.added), strings.Fields(test.dropped)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if p.Explanations != nil {
				t.Error("explained what nobody asked about")
			}
		})
	}
}

func TestAPreviewOfNoPlacementHasNoClustersYet(t *testing.T) {
	f := testFleet()
	decide(f, "n", "p", "d")
	f.Decisions[0].Labels = nil
	nameless := testPlacement(clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To[int32](1)})
	nameless.Name = ""
	if p := f.Preview(nameless, false); !slices.Equal(p.Clusters, []string{"a"}) || len(p.Dropped) > 0 {
		t.Errorf("it would select %q and drop %q", p.Clusters, p.Dropped)
	}
}

func TestDifference(t *testing.T) {
	added, dropped := ClusterChanges([]string{"c", "b", "a"}, []string{"b", "e", "d"})
	if !slices.Equal(added, []string{"d", "e"}) || !slices.Equal(dropped, []string{"a", "c"}) {
		t.Errorf("added %q, dropped %q", added, dropped)
	}
}
