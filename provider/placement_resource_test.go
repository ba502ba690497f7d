package provider

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

const placementAddress = "muster_placement.test"

func placementConfig(namespace, body string) string {
	return fmt.Sprintf("resource \"muster_placement\" \"test\" {\n  namespace = %q\n  name = \"where\"\n%s\n}\n", namespace, body)
}

const placementBody = `
  labels             = { team = "shop" }
  cluster_sets       = ["blue", "global"]
  number_of_clusters = 2
  predicates = [
    {
      label_selector  = { match_labels = { env = "prod" }, match_expressions = [{ key = "region", operator = "NotIn", values = ["us", "eu"] }] }
      claim_selector  = { match_expressions = [{ key = "platform", operator = "Exists" }] }
      cel_expressions = ["managedCluster.metadata.name != 'x'"]
    },
    { label_selector = { match_labels = { always = "yes" } } },
  ]
  prioritizer_policy = {
    mode = "Exact"
    configurations = [
      { built_in = "ResourceAllocatableMemory", weight = 2 },
      { add_on = { resource_name = "default", score_name = "latency" }, weight = -3 },
      { built_in = "Steady" },
    ]
  }
  tolerations = [
    { key = "maintenance", value = "soft", effect = "NoSelect", toleration_seconds = 60 },
    { operator = "Exists" },
  ]
  decision_strategy = {
    clusters_per_decision_group = "25%"
    decision_groups = [{ name = "canary", label_selector = { match_labels = { canary = "true" } } }]
  }`

func TestAccPlacement(t *testing.T) {
	config := placementConfig("placement-test", placementBody)
	accTest(t,
		resource.TestStep{
			PreConfig: func() { someone(t).namespace("placement-test") },
			Config:    config,
			Check: func(*terraform.State) error {
				object := &clusterv1beta1.Placement{}
				someone(t).get(object, "placement-test", "where")
				s := object.Spec
				switch {
				case len(s.ClusterSets) != 2 || *s.NumberOfClusters != 2 || len(s.Predicates) != 2:
				case s.PrioritizerPolicy.Configurations[1].ScoreCoordinate.AddOn.ScoreName != "latency" || *s.PrioritizerPolicy.Configurations[2].Weight != 1:
				case *s.Tolerations[0].TolerationSeconds != 60 || s.Tolerations[1].Operator != clusterv1beta1.TolerationOpExists:
				case s.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup.String() != "25%":
				default:
					return nil
				}
				return fmt.Errorf("got %+v", s)
			},
		},
		resource.TestStep{
			ResourceName: placementAddress, ImportState: true, ImportStateId: "placement-test/where",
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name",
		},
		resource.TestStep{
			PreConfig: func() {
				someone(t).patch(&clusterv1beta1.Placement{}, "placement-test", "where",
					`{"spec":{"numberOfClusters":7,"tolerations":null,"sortBy":"ClusterName","decisionStrategy":{"groupStrategy":{"clustersPerDecisionGroup":3}}}}`)
			},
			Config: config,
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(placementAddress, plancheck.ResourceActionUpdate),
			}},
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("number_of_clusters"), knownvalue.Int64Exact(2)),
				statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("tolerations"), knownvalue.ListSizeExact(2)),
			},
		},
		resource.TestStep{
			PreConfig: func() { someone(t).remove(&clusterv1beta1.Placement{}, "placement-test", "where") },
			Config:    config,
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(placementAddress, plancheck.ResourceActionCreate),
			}},
		},
		resource.TestStep{Config: placementConfig("placement-test", `decision_strategy = { clusters_per_decision_group = "3" }`)},
		resource.TestStep{
			Config: placementConfig("placement-test", ""),
			Check: func(*terraform.State) error {
				object := &clusterv1beta1.Placement{}
				someone(t).get(object, "placement-test", "where")
				if s := object.Spec; s.NumberOfClusters != nil || len(s.Predicates)+len(s.Tolerations)+len(s.ClusterSets) > 0 {
					return fmt.Errorf("what the configuration gave up is still there: %+v", s)
				}
				return nil
			},
		},
		resource.TestStep{
			ResourceName: placementAddress, ImportState: true, ImportStateId: "placement-test/where",
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name",
		},
	)
}

func TestAccPlacementBadInput(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"toleration without key":  {`tolerations = [{ value = "x" }]`, `Toleration without a key`},
		"toleration with a value": {`tolerations = [{ key = "a", operator = "Exists", value = "x" }]`, `(?s)value = "x" has\s+no place`},
		"number":                  {`number_of_clusters = -1`, `number_of_clusters`},
		"group size":              {`decision_strategy = { clusters_per_decision_group = "120%" }`, `"120%" is no size`},
		"weight":                  {`prioritizer_policy = { configurations = [{ built_in = "Steady", weight = 11 }] }`, `(?s)weight.*between\s+-10\s+and\s+10`},
		"unknown score":           {`prioritizer_policy = { configurations = [{ built_in = "Luck" }] }`, `(?s)Steady.*Luck`},
		"no score":                {`prioritizer_policy = { configurations = [{ weight = 1 }] }`, `(?s)built_in.*add_on`},
		"same set twice":          {`cluster_sets = ["a", "a"]`, `(?s)[Dd]uplicate`},
		"group name":              {`decision_strategy = { decision_groups = [{ name = "x" }] }`, `2 to 63`},
	} {
		t.Run(name, func(t *testing.T) {
			accTest(t, resource.TestStep{Config: placementConfig("default", test.body), PlanOnly: true, ExpectError: regexp.MustCompile(test.want)})
		})
	}
}
