package placement_test

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

const placementAddress = "muster_placement.test"

func TestAccPlacement(t *testing.T) {
	config := acctest.PlacementConfig("placement-test", acctest.PlacementBody)
	acctest.Run(t,
		resource.TestStep{
			PreConfig: func() { acctest.Someone(t).Namespace("placement-test") },
			Config:    config,
			Check: func(*terraform.State) error {
				object := &clusterv1beta1.Placement{}
				acctest.Someone(t).Get(object, "placement-test", "where")
				s := object.Spec
				switch {
				case len(s.ClusterSets) != 2 || *s.NumberOfClusters != 2 || len(s.Predicates) != 2:
				case s.PrioritizerPolicy.Configurations[1].ScoreCoordinate.AddOn.ScoreName != "latency" || *s.PrioritizerPolicy.Configurations[2].Weight != 1:
				case *s.Tolerations[0].TolerationSeconds != 60 || s.Tolerations[1].Operator != clusterv1beta1.TolerationOpExists:
				case s.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup.String() != "25%":
				case s.SortBy != "Score" || s.ScoreRateLimit != "5m" || object.Annotations["owner"] != "Joe's team":
				case s.SpreadPolicy.SpreadConstraints[0].MaxSkew != 2 || s.SpreadPolicy.SpreadConstraints[1].WhenUnsatisfiable != "ScheduleAnyway":
				default:
					return nil
				}
				return fmt.Errorf("got %+v", s)
			},
		},
		importedPlacement("placement-test/where"),
		resource.TestStep{
			PreConfig: func() {
				acctest.Someone(t).Patch(&clusterv1beta1.Placement{}, "placement-test", "where",
					`{"spec":{"numberOfClusters":7,"tolerations":null,"sortBy":"ClusterName","scoreRateLimit":null,"spreadPolicy":{"spreadConstraints":[]},"decisionStrategy":{"groupStrategy":{"clustersPerDecisionGroup":3}}}}`)
			},
			Config: config,
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(placementAddress, plancheck.ResourceActionUpdate),
			}},
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("number_of_clusters"), knownvalue.Int64Exact(2)),
				statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("tolerations"), knownvalue.ListSizeExact(2)),
				statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("sort_by"), knownvalue.StringExact("Score")),
				statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("score_rate_limit"), knownvalue.StringExact("5m")),
				statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("spread_policy").AtMapKey("spread_constraints"), knownvalue.ListSizeExact(2)),
			},
		},
		resource.TestStep{
			PreConfig: func() { acctest.Someone(t).Remove(&clusterv1beta1.Placement{}, "placement-test", "where") },
			Config:    config,
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(placementAddress, plancheck.ResourceActionCreate),
			}},
		},
		resource.TestStep{Config: acctest.PlacementConfig("placement-test", `decision_strategy = { clusters_per_decision_group = "3" }`)},
		resource.TestStep{
			Config: acctest.PlacementConfig("placement-test", ""),
			Check: func(*terraform.State) error {
				object := &clusterv1beta1.Placement{}
				acctest.Someone(t).Get(object, "placement-test", "where")
				if s := object.Spec; s.NumberOfClusters != nil || len(s.Predicates)+len(s.Tolerations)+len(s.ClusterSets) > 0 {
					return fmt.Errorf("what the configuration gave up is still there: %+v", s)
				}
				return nil
			},
		},
		importedPlacement("placement-test/where"),
	)
}

// importedPlacement imports what the step before has made. What was expected of
// its changes is not on the hub.
func importedPlacement(id string) resource.TestStep {
	return resource.TestStep{
		ResourceName: placementAddress, ImportState: true, ImportStateId: id,
		ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name",
		ImportStateVerifyIgnore: []string{"planned_clusters", "planned_added", "planned_dropped"},
	}
}

// After an import there is nothing to do.
func TestAccPlacementImport(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		PreConfig: func() {
			o := acctest.Someone(t)
			o.Namespace("placement-import")
			object := &clusterv1beta1.Placement{}
			object.Namespace, object.Name = "placement-import", "where"
			object.Spec.NumberOfClusters = ptr.To[int32](3)
			object.Spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
				CELSelector: clusterv1beta1.ClusterCELSelector{CELExpressions: []string{"true"}},
			}}}
			o.Apply(object)
		},
		Config: `import {
  to = muster_placement.test
  id = "placement-import/where"
}
` + acctest.PlacementConfig("placement-import", "number_of_clusters = 3\npredicates = [{ cel_expressions = [\"true\"] }]"),
		ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
			plancheck.ExpectResourceAction(placementAddress, plancheck.ResourceActionNoop),
		}},
	})
}

// What is left out means something: all clusters, no predicate, one group. A value
// that somebody adds is drift, and is removed.
func TestAccPlacementSeesWhatSomebodyAddsToIt(t *testing.T) {
	const n = "placement-drift"
	w, o := acctest.NewWorkspace(t), acctest.Someone(t)
	o.Namespace(n)
	config := func(more string) string { return acctest.PlacementConfig(n, "  tolerations = []\n"+more) }
	if said, ok := w.Apply(config("")); !ok {
		t.Fatal(said)
	}
	object := &clusterv1beta1.Placement{}
	o.Get(object, n, "where")
	bare := object.Spec
	o.Patch(object, n, "where", `{"spec":{
		"numberOfClusters": 1, "clusterSets": ["blue"], "sortBy": "Score", "scoreRateLimit": "5m",
		"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"a": "b"}}}}],
		"prioritizerPolicy": {"mode": "Exact"},
		"spreadPolicy": {"spreadConstraints": [{"topologyKey": "region", "topologyKeyType": "Label"}]},
		"tolerations": [{"operator": "Exists"}],
		"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": 3}}}}`)
	said := w.Plan(config(""))
	acctest.Says(t, said, "1 to change",
		"- number_of_clusters = 1", "- cluster_sets", "- sort_by", "- score_rate_limit", "- predicates", "- prioritizer_policy", "- spread_policy", "- decision_strategy", "~ tolerations",
		"Takes fields from another owner", `field .spec.numberOfClusters is owned by "kubectl-edit"`)
	said = w.Plan(config("force_conflicts = false"))
	acctest.Says(t, said, "Error: Fields of another owner", `field .spec.decisionStrategy is owned by "kubectl-edit"`)
	if said, ok := w.Apply(config("")); !ok {
		t.Fatal(said)
	}
	o.Get(object, n, "where")
	if !reflect.DeepEqual(object.Spec, bare) {
		t.Errorf("got %+v, want %+v", object.Spec, bare)
	}
	if said := w.Plan(config("")); !strings.Contains(said, "No changes") {
		t.Error(said)
	}
	// What others put beside it is theirs.
	o.Patch(object, n, "where", `{"metadata":{"labels":{"theirs":"x"},"annotations":{"theirs":"x"}}}`)
	if said := w.Plan(config("")); !strings.Contains(said, "No changes") {
		t.Error(said)
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(said)
	}
}

// A new placement is no reason for a warning. What a change adds and drops is one,
// told once.
func TestAccPlacementWarnsOfChangesAlone(t *testing.T) {
	const n = "placement-quiet"
	w, o := acctest.NewWorkspace(t), acctest.Someone(t)
	o.Namespace(n)
	config := func(body string) string {
		return choosing(n, "  tolerations = [{ operator = \"Exists\" }]\n  depends_on = [muster_managed_cluster.many, muster_managed_cluster_set_binding.test]\n"+body)
	}
	said, ok := w.Apply(config(""))
	if !ok || strings.Contains(said, "Warning") {
		t.Errorf("the first apply: %s", said)
	}
	said, ok = w.Apply(config("number_of_clusters = 1"))
	if !ok || strings.Count(said, "Warning") != 1 {
		t.Errorf("the second apply: %s", said)
	}
	acctest.Says(t, said, "would add 0 and drop 2 of its clusters")
	if said, ok := w.Destroy(); !ok {
		t.Error(said)
	}
}

// What other resources make may go into every part of a placement.
func TestAccPlacementWithUnknownInputs(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		PreConfig: func() { acctest.Someone(t).Namespace("placement-unknown") },
		Config: `resource "terraform_data" "in" {
  input = { number = 2, text = "prod", expression = "true", values = ["a"], size = "10%" }
}
` + acctest.PlacementConfig("placement-unknown", `
  number_of_clusters = terraform_data.in.output.number
  cluster_sets       = [terraform_data.in.output.text]
  predicates = [
    {
      label_selector  = { match_labels = { env = terraform_data.in.output.text }, match_expressions = [{ key = "a", operator = "In", values = terraform_data.in.output.values }] }
      cel_expressions = [terraform_data.in.output.expression]
    },
  ]
  tolerations       = [for v in terraform_data.in.output.values : { key = v, operator = "Exists" }]
  decision_strategy = { clusters_per_decision_group = terraform_data.in.output.size }
  planned_clusters  = terraform_data.in.output.values
  wait              = { min_clusters = 0 + terraform_data.in.output.number, conditions = ["PlacementMisconfigured=False"] }
  timeouts { create = "1s" }
`),
		ConfigStateChecks: []statecheck.StateCheck{
			statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("planned_added"), knownvalue.ListExact([]knownvalue.Check{knownvalue.StringExact("a")})),
			statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("ready"), knownvalue.Bool(false)),
		},
		ExpectNonEmptyPlan: true, // It waits again.
	})
}

func TestAccPlacementBadInput(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"toleration without key":  {`tolerations = [{ value = "x" }]`, `Toleration without a key`},
		"toleration with a value": {`tolerations = [{ key = "a", operator = "Exists", value = "x" }]`, `(?s)value = "x" has\s+no place`},
		"number":                  {`number_of_clusters = -1`, `number_of_clusters`},
		"group size":              {`decision_strategy = { clusters_per_decision_group = "120%" }`, `"120%" is not a size`},
		"weight":                  {`prioritizer_policy = { configurations = [{ built_in = "Steady", weight = 11 }] }`, `(?s)weight.*between\s+-10\s+and\s+10`},
		"unknown score":           {`prioritizer_policy = { configurations = [{ built_in = "Luck" }] }`, `(?s)configurations\[0\].built_in\s+is\s+"Luck",.*Steady`},
		"no score":                {`prioritizer_policy = { configurations = [{ weight = 1 }] }`, `(?s)configurations\[0\]\s+takes\s+exactly\s+one\s+of\s+built_in,\s+add_on,\s+and\s+neither\s+is\s+set`},
		"same set twice":          {`cluster_sets = ["a", "a"]`, `(?s)[Dd]uplicate`},
		"group name":              {`decision_strategy = { decision_groups = [{ name = "x" }] }`, `2 to 63`},
		"CEL":                     {`predicates = [{ cel_expressions = ["true", "managedCluster.metadata.name ="] }]`, `(?s)predicates\[0\].cel_expressions\[1\],.*can't\s+be\s+evaluated\s+on\s+any\s+cluster:\s+compilation\s+failed`},
		"CEL typo":                {`predicates = [{ cel_expressions = ["managedCluster.status.version.kubernets == 'v1'"] }]`, `(?s)predicates\[0\].cel_expressions\[0\],.*selects\s+no\s+cluster:.*no\s+field\s+kubernets:\s+did\s+you\s+mean\s+kubernetes`},
		"CEL, no truth value":     {`predicates = [{}, { cel_expressions = ["managedCluster.metadata.name"] }]`, `(?s)predicates\[1\].cel_expressions\[0\],.*always\s+of\s+the\s+type\s+string`},
		"misspelled predicate":    {`predicates = [{ cel_selector = { cel_expressions = ["true"] } }]`, `(?s)predicates\[0\]\s+sets\s+none\s+of\s+cel_expressions,.*select\s+every\s+cluster`},
		"too many predicates":     {`predicates = [for i in range(101) : { label_selector = { match_labels = { a = tostring(i) } } }]`, `(?s)Longer than a hub accepts.*101\s+entries\s+are\s+more\s+than\s+the\s+100`},
		"CEL function":            {`predicates = [{ cel_expressions = ["managedCluster.luck()"] }]`, `(?s)undeclared\s+reference\s+to\s+'luck'`},
		"selector value":          {`predicates = [{ label_selector = { match_expressions = [{ key = "a", operator = "In", values = ["b c"] }] } }]`, `(?s)predicates\[0\].label_selector.match_expressions\[0\].values:\s+"b\s+c"\s+can't\s+be\s+selected\s+by`},
		"claim value":             {`predicates = [{ claim_selector = { match_expressions = [{ key = "a", operator = "In", values = ["b/c"] }] } }]`, `(?s)"b/c"\s+can't\s+be\s+selected\s+by.*cel_expressions`},
		"group's selector value":  {`decision_strategy = { decision_groups = [{ name = "gold", label_selector = { match_expressions = [{ key = "a", operator = "In", values = ["b c"] }] } }] }`, `(?s)decision_groups\[0\].*"b\s+c"\s+can't\s+be\s+selected\s+by`},
		"selector operator":       {`predicates = [{ label_selector = { match_expressions = [{ key = "a", operator = "Like" }] } }]`, `(?s)operator.*DoesNotExist.*Like`},
		"selector without values": {`predicates = [{ claim_selector = { match_expressions = [{ key = "a", operator = "In" }] } }]`, `(?s)predicates\[0\].claim_selector.match_expressions\[0\]:\s+the\s+operator\s+In\s+needs\s+values`},
		"sort order":              {`sort_by = "Luck"`, `(?s)sort_by.*ClusterName.*Luck`},
		"rate limit":              {`score_rate_limit = "1 minute"`, `(?s)score_rate_limit.*5m`},
		"skew":                    {`spread_policy = { spread_constraints = [{ topology_key = "a", topology_key_type = "Label", max_skew = 0 }] }`, `(?s)max_skew.*between\s+1\s+and`},
		"topology":                {`spread_policy = { spread_constraints = [{ topology_key = "a", topology_key_type = "Luck" }] }`, `(?s)topology_key_type.*Claim.*Luck`},
		"no constraint":           {`spread_policy = { spread_constraints = [] }`, `(?s)spread_constraints.*at least 1`},
		"wait for nothing":        {`wait = { satisfied = false }`, `Nothing to wait for`},
		"wait for no condition":   {`wait = { conditions = ["PlacementSatisfied=Yes"] }`, `(?s)"Yes" is not a status`},
	} {
		t.Run(name, func(t *testing.T) {
			acctest.Run(t, resource.TestStep{Config: acctest.PlacementConfig("default", test.body), PlanOnly: true, ExpectError: regexp.MustCompile(test.want)})
		})
	}
}
