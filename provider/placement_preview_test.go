package provider

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/compare"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// testFleet has the clusters a to d, of which d is in another set; both sets are
// bound to the namespace n.
func testFleet() *fleet {
	f := &fleet{now: time.Unix(1_000_000, 0), spreads: true}
	for i, name := range []string{"a", "b", "c", "d"} {
		c := clusterv1.ManagedCluster{}
		c.Name = name
		c.Labels = map[string]string{cluster.ClusterSetLabel: []string{"one", "one", "one", "two"}[i], "region": []string{"eu", "eu", "us", "us"}[i]}
		f.clusters = append(f.clusters, c)
	}
	for _, name := range []string{"one", "two"} {
		set, binding := clusterv1beta2.ManagedClusterSet{}, clusterv1beta2.ManagedClusterSetBinding{}
		set.Name, binding.Name, binding.Namespace = name, name, "n"
		f.sets, f.bindings = append(f.sets, set), append(f.bindings, binding)
	}
	return f
}

// decide notes that a placement has clusters.
func (f *fleet) decide(namespace, placement string, clusters ...string) {
	d := clusterv1beta1.PlacementDecision{}
	d.Namespace, d.Name, d.Labels = namespace, placement+"-decision-1", map[string]string{cluster.PlacementLabel: placement}
	for _, name := range clusters {
		d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: name})
	}
	f.decisions = append(f.decisions, d)
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
		change                   func(*fleet)
		spec                     clusterv1beta1.PlacementSpec
		clusters, added, dropped string
	}{
		"all of the bound sets":              {nil, clusterv1beta1.PlacementSpec{}, "a b c d", "a b c d", ""},
		"of the sets that are named":         {nil, clusterv1beta1.PlacementSpec{ClusterSets: []string{"two"}}, "d", "d", ""},
		"not of another namespace's binding": {func(f *fleet) { f.bindings[1].Namespace = "m" }, clusterv1beta1.PlacementSpec{}, "a b c", "a b c", ""},
		"not of a set that is gone":          {func(f *fleet) { f.sets = f.sets[:1] }, clusterv1beta1.PlacementSpec{}, "a b c", "a b c", ""},
		"its clusters stay":                  {func(f *fleet) { f.decide("n", "p", "c", "d") }, two, "c d", "", ""},
		"it drops what is too many":          {func(f *fleet) { f.decide("n", "p", "b", "c", "d") }, two, "b c", "", "d"},
		"a cluster that is gone is dropped":  {func(f *fleet) { f.decide("n", "p", "x") }, two, "a b", "a b", "x"},
		"others' clusters come last":         {func(f *fleet) { f.decide("m", "p", "a"); f.decide("n", "q", "b") }, two, "c d", "c d", ""},
		"known by its decision's name alone": {func(f *fleet) { f.decide("n", "p", "d"); f.decisions[0].Labels = nil }, two, "a d", "a", ""},
		"known by its decision's label":      {func(f *fleet) { f.decide("n", "p", "d"); f.decisions[0].Name = "another" }, two, "a d", "a", ""},
		"spread":                             {nil, spread, "a c", "a c", ""},
		"not spread by an upstream hub":      {func(f *fleet) { f.spreads = false }, spread, "a b", "a b", ""},
		"by an add-on's score": {func(f *fleet) {
			s := clusterv1alpha1.AddOnPlacementScore{}
			s.Namespace, s.Name, s.Status.Scores = "c", "cost", []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "hourly", Value: 7}}
			f.scores = append(f.scores, s)
		}, scored, "c", "c", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := testFleet()
			if test.change != nil {
				test.change(f)
			}
			p := f.preview(testPlacement(test.spec), false)
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
	f.decide("n", "p", "d")
	f.decisions[0].Labels = nil
	nameless := testPlacement(clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To[int32](1)})
	nameless.Name = ""
	if p := f.preview(nameless, false); !slices.Equal(p.Clusters, []string{"a"}) || len(p.Dropped) > 0 {
		t.Errorf("it would select %q and drop %q", p.Clusters, p.Dropped)
	}
}

func TestExplanationsAreOfEveryCluster(t *testing.T) {
	f := testFleet()
	f.clusters[1].Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectNoSelect}}
	got := explanations(f.preview(testPlacement(clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To[int32](1)}), true))
	if len(got) != 4 {
		t.Fatalf("%d clusters are explained, want 4", len(got))
	}
	first, passed, filtered := got[0], got[1], got[3]
	if first.Cluster.ValueString() != "a" || !first.Selected.ValueBool() || first.Rank.ValueInt64() != 1 || first.Score.ValueInt64() != 100 || first.Scores.Elements()["Balance"].String() != "100" {
		t.Errorf("the first is %+v", first)
	}
	if passed.Cluster.ValueString() != "c" || passed.Selected.ValueBool() || passed.Rank.ValueInt64() != 2 || !strings.Contains(passed.Reason.ValueString(), "rank 2 of 3, 1 asked for") {
		t.Errorf("the second is %+v", passed)
	}
	if filtered.Cluster.ValueString() != "b" || !filtered.Rank.IsNull() || !filtered.Score.IsNull() || !filtered.Scores.IsNull() || !strings.Contains(filtered.Reason.ValueString(), "x:NoSelect") {
		t.Errorf("the last is %+v", filtered)
	}
}

const previewAddress = "data.muster_placement_preview.test"

func previewConfig(body string) string {
	return "data \"muster_placement_preview\" \"test\" {\n" + body + "\n}\n"
}

// Before there is a placement, and of one that there is.
func TestAccPlacementPreview(t *testing.T) {
	const n = "previewed"
	have := func(attribute string, want knownvalue.Check) statecheck.StateCheck {
		return statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New(attribute), want)
	}
	all := "  namespace = \"" + n + "\"\n"
	fleet := choosing(n, "  number_of_clusters = 1\n  tolerations = [{ operator = \"Exists\" }]\n  depends_on = [muster_managed_cluster.many, muster_managed_cluster_set_binding.test]\n")
	accTest(t,
		resource.TestStep{PreConfig: func() { someone(t).namespace(n) }, Config: fleet},
		resource.TestStep{
			// As without defaults that only resources have.
			Config: fleet + previewConfig(all+`
  predicates         = [{ label_selector = { match_expressions = [{ key = "canary", operator = "Exists" }] }, cel_expressions = ["managedCluster.metadata.name != '`+n+`-1'"] }]
  tolerations        = [{ operator = "Exists" }]
  prioritizer_policy = { configurations = [{ built_in = "Steady" }] }
  spread_policy      = { spread_constraints = [{ topology_key = "canary", topology_key_type = "Label" }] }
  decision_strategy  = { decision_groups = [{ name = "canary", label_selector = { match_labels = { canary = "true" } } }] }
  number_of_clusters = 5
`),
			ConfigStateChecks: []statecheck.StateCheck{
				have("exists", knownvalue.Bool(false)),
				have("clusters", listOf(n+"-0", n+"-2")),
				have("added", listOf(n+"-0", n+"-2")),
				have("dropped", listOf()),
				have("satisfied", knownvalue.Bool(false)),
				statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New("groups").AtSliceIndex(0).AtMapKey("name"), knownvalue.StringExact("canary")),
				statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New("groups").AtSliceIndex(0).AtMapKey("clusters"), listOf(n+"-2")),
				statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New("groups").AtSliceIndex(1).AtMapKey("clusters"), listOf(n+"-0")),
				statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New("conditions").AtSliceIndex(1).AtMapKey("message"), knownvalue.StringExact("3 cluster decisions unscheduled")),
				statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New("explanations").AtSliceIndex(2).AtMapKey("reason"), knownvalue.StringRegexp(regexp.MustCompile(`managedCluster.metadata.name != .* is false`))),
				statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New("explanations").AtSliceIndex(0).AtMapKey("rank"), knownvalue.Int64Exact(1)),
			},
		},
		resource.TestStep{
			Config: fleet + previewConfig(all+"  name = \"where\"\n  explain = false\n"),
			ConfigStateChecks: []statecheck.StateCheck{
				have("exists", knownvalue.Bool(true)),
				have("clusters", knownvalue.ListSizeExact(1)),
				have("added", listOf()),
				have("explanations", knownvalue.Null()),
				have("satisfied", knownvalue.Bool(true)),
			},
		},
		resource.TestStep{
			Config: fleet + previewConfig(all+"  name = \"where\"\n  number_of_clusters = 0\n"),
			ConfigStateChecks: []statecheck.StateCheck{
				have("clusters", listOf()),
				have("dropped", knownvalue.ListSizeExact(1)),
			},
		},
		resource.TestStep{
			Config: fleet + previewConfig("  namespace = \"nowhere\"\n  name = \"nobody\"\n"),
			ConfigStateChecks: []statecheck.StateCheck{
				have("exists", knownvalue.Bool(false)),
				statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New("conditions").AtSliceIndex(1).AtMapKey("reason"), knownvalue.StringExact(cluster.ReasonNoManagedClusterSetBindings)),
			},
		},
	)
}

func TestAccPlacementPreviewBadInput(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"CEL":        {`predicates = [{ cel_expressions = ["1 +"] }]`, `can't\s+be\s+evaluated`},
		"weight":     {`prioritizer_policy = { configurations = [{ built_in = "Steady", weight = 11 }] }`, `(?s)weight.*between\s+-10\s+and\s+10`},
		"toleration": {`tolerations = [{ value = "x" }]`, `Toleration without a key`},
		"name":       {`name = "No"`, `"No" cannot be used as placement name`},
		"group size": {`decision_strategy = { clusters_per_decision_group = "0" }`, `"0" is no size`},
	} {
		t.Run(name, func(t *testing.T) {
			accTest(t, resource.TestStep{Config: previewConfig("  namespace = \"default\"\n  " + test.body), PlanOnly: true, ExpectError: regexp.MustCompile(test.want)})
		})
	}
}

// The preview is of what the hub then does, whatever the placement asks for.
func TestAccPlacementPreviewIsWhatComesTrue(t *testing.T) {
	const n = "came-true"
	var steps []resource.TestStep
	for _, body := range []string{
		"sort_by = \"Score\"\ntolerations = [{ operator = \"Exists\" }]\n",
		"predicates = [{ claim_selector = { match_expressions = [{ key = \"a\", operator = \"DoesNotExist\" }] } }]\ntolerations = [{ operator = \"Exists\" }]\n",
		"predicates = [{ cel_expressions = [\"managedCluster.metadata.labels['canary'] == 'true'\"] }]\ntolerations = [{ operator = \"Exists\" }]\n",
		"number_of_clusters = 0\n",
		"", // Their taints keep all away.
	} {
		steps = append(steps, resource.TestStep{
			PreConfig: func() { someone(t).namespace(n) },
			Config: choosing(n, body+"  depends_on = [muster_managed_cluster.many, muster_managed_cluster_set_binding.test, data.muster_placement_preview.test]\n") +
				previewConfig("  namespace = \""+n+"\"\n"+body+"  depends_on = [muster_managed_cluster.many, muster_managed_cluster_set_binding.test]\n"),
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.CompareValuePairs(previewAddress, tfjsonpath.New("clusters"), placementAddress, tfjsonpath.New("selected_clusters"), compare.ValuesSame()),
			},
		})
	}
	accTest(t, steps...)
}
