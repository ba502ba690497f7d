package placement_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

func TestAccPlacementDecisionsOfAGroup(t *testing.T) {
	const n, address = "decided-groups", "data.muster_placement_decisions.test"
	config := func(body string) string {
		return choosing(n, `
  tolerations       = [{ operator = "Exists" }]
  decision_strategy = { decision_groups = [{ name = "canary", label_selector = { match_labels = { canary = "true" } } }], clusters_per_decision_group = "1" }
  depends_on        = [muster_managed_cluster.many, muster_managed_cluster_set_binding.test]
`) + fmt.Sprintf("data \"muster_placement_decisions\" \"test\" {\n  namespace = muster_placement.test.namespace\n  placement = muster_placement.test.name\n  min_clusters = 3\n%s\n}\n", body)
	}
	step := func(body string, want ...string) resource.TestStep {
		return resource.TestStep{
			PreConfig:         func() { acctest.Someone(t).Namespace(n) },
			Config:            config(body),
			ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownValue(address, tfjsonpath.New("clusters"), listOf(want...))},
		}
	}
	byIndex := step("group_index = 1", n+"-0")
	byIndex.ConfigStateChecks = append(byIndex.ConfigStateChecks, statecheck.ExpectKnownValue(address, tfjsonpath.New("groups"), knownvalue.ListSizeExact(1)))
	acctest.Run(t,
		step("group_name = \"canary\"", n+"-2"),
		step("group_name = \"\"", n+"-0", n+"-1"),
		byIndex,
		step("group_name = \"gold\""),
	)
}

func TestAccPlacementDecisionsBadInput(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		Config:   "data \"muster_placement_decisions\" \"test\" {\n  namespace = \"default\"\n  placement = \"where\"\n  group_index = -1\n}\n",
		PlanOnly: true, ExpectError: regexp.MustCompile(`(?s)group_index.*at\s+least\s+0`),
	})
}

// A placement that the same apply makes has its answer at once.
func TestAccPlacementDecisions(t *testing.T) {
	const address = "data.muster_placement_decisions.test"
	config := func(number int, body string) string {
		return fmt.Sprintf(`
resource "muster_managed_cluster" "many" {
  count       = 3
  name        = "placed-${count.index}"
  cluster_set = "placed"
  labels      = { canary = tostring(count.index == 2) }
}
resource "muster_managed_cluster_set" "placed" { name = "placed" }
resource "muster_managed_cluster_set_binding" "placed" {
  namespace   = "default"
  cluster_set = muster_managed_cluster_set.placed.name
}
resource "muster_placement" "test" {
  namespace          = muster_managed_cluster_set_binding.placed.namespace
  name               = "placed"
  cluster_sets       = [muster_managed_cluster_set_binding.placed.cluster_set]
  number_of_clusters = %d
  tolerations        = [{ operator = "Exists" }]
  decision_strategy  = { decision_groups = [{ name = "canary", label_selector = { match_labels = { canary = "true" } } }] }
  depends_on         = [muster_managed_cluster.many]
}
data "muster_placement_decisions" "test" {
  namespace = muster_placement.test.namespace
  placement = muster_placement.test.name
%s
  depends_on = [muster_placement.test]
}
`, number, body)
	}
	first := func(group int, field string) tfjsonpath.Path {
		return tfjsonpath.New("groups").AtSliceIndex(group).AtMapKey(field)
	}
	acctest.Run(t,
		resource.TestStep{
			Config: config(3, "wait = true"),
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(address, tfjsonpath.New("clusters"), knownvalue.ListExact([]knownvalue.Check{
					knownvalue.StringExact("placed-0"), knownvalue.StringExact("placed-1"), knownvalue.StringExact("placed-2"),
				})),
				statecheck.ExpectKnownValue(address, first(0, "name"), knownvalue.StringExact("canary")),
				statecheck.ExpectKnownValue(address, first(0, "clusters"), knownvalue.ListExact([]knownvalue.Check{knownvalue.StringExact("placed-2")})),
				statecheck.ExpectKnownValue(address, tfjsonpath.New("satisfied"), knownvalue.Bool(true)),
			},
		},
		resource.TestStep{
			Config:      config(5, "wait = true\n  timeouts { read = \"2s\" }"),
			ExpectError: regexp.MustCompile(`(?s)not decided as asked for.*PlacementSatisfied is\s+False.*kubectl\s+describe\s+placement\s+-n\s+default\s+placed`),
		},
	)
}

func TestAccPlacementDecisionsOfNoPlacement(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		Config: `data "muster_placement_decisions" "test" {
  namespace = "default"
  placement = "nowhere"
}`,
		ExpectError: regexp.MustCompile(`has no placement\s+"nowhere"`),
	})
}
