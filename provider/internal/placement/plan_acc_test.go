package placement_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// choosing is a fleet of three in a set, and a placement of them.
func choosing(name, body string) string {
	return fmt.Sprintf(`
resource "muster_managed_cluster" "many" {
  count       = 3
  name        = "%[1]s-${count.index}"
  cluster_set = %[1]q
  labels      = { canary = tostring(count.index == 2) }
}
resource "muster_managed_cluster_set" "test" { name = %[1]q }
resource "muster_managed_cluster_set_binding" "test" {
  namespace   = %[1]q
  cluster_set = muster_managed_cluster_set.test.name
}
`, name) + acctest.PlacementConfig(name, body)
}

func listOf(list ...string) knownvalue.Check {
	checks := []knownvalue.Check{}
	for _, name := range list {
		checks = append(checks, knownvalue.StringExact(name))
	}
	return knownvalue.ListExact(checks)
}

func choiceChecks(selected, planned, added, dropped knownvalue.Check) []statecheck.StateCheck {
	return []statecheck.StateCheck{
		statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("selected_clusters"), selected),
		statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("planned_clusters"), planned),
		statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("planned_added"), added),
		statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("planned_dropped"), dropped),
	}
}

// The whole fleet comes with the same apply, after the plan saw nothing of it:
// what the plan said must still stand. Later the fleet changes by itself, which is
// no reason for a plan.
func TestAccPlacementFollowsAFleetThatChanges(t *testing.T) {
	const n = "placement-moving"
	body := func(number string) string {
		return "  tolerations = [{ operator = \"Exists\" }]\n  depends_on = [muster_managed_cluster.many, muster_managed_cluster_set_binding.test]\n" + number
	}
	config := choosing(n, body("")) + "output \"selected\" {\n  value = muster_placement.test.selected_clusters\n}\n"
	acctest.Run(t,
		resource.TestStep{
			PreConfig:         func() { acctest.Someone(t).Namespace(n) },
			Config:            config,
			ConfigStateChecks: choiceChecks(listOf(n+"-0", n+"-1", n+"-2"), listOf(n+"-0", n+"-1", n+"-2"), listOf(n+"-0", n+"-1", n+"-2"), listOf()),
		},
		resource.TestStep{
			PreConfig: func() {
				o, mc := acctest.Someone(t), &clusterv1.ManagedCluster{}
				o.Patch(mc, "", n+"-1", `{"metadata":{"labels":{"`+cluster.ClusterSetLabel+`":"elsewhere"}}}`)
				waitUntilChosen(t, n, "where", 2)
			},
			RefreshState:       true,
			ExpectNonEmptyPlan: true, // The cluster's set is Terraform's.
			RefreshPlanChecks: resource.RefreshPlanChecks{PostRefresh: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(placementAddress, plancheck.ResourceActionNoop),
			}},
		},
		resource.TestStep{
			Config: choosing(n, body("number_of_clusters = 1")),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectUnknownValue(placementAddress, tfjsonpath.New("planned_clusters")),
				plancheck.ExpectUnknownValue(placementAddress, tfjsonpath.New("selected_clusters")),
			}},
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("selected_clusters"), knownvalue.ListSizeExact(1)),
				statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("planned_clusters"), knownvalue.ListSizeExact(1)),
			},
		},
		resource.TestStep{
			Config: choosing(n, body("number_of_clusters = 1\n  labels = { only = \"labels\" }\n  preview = false")),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectKnownValue(placementAddress, tfjsonpath.New("planned_clusters"), knownvalue.ListSizeExact(1)),
				plancheck.ExpectKnownValue(placementAddress, tfjsonpath.New("selected_clusters"), knownvalue.ListSizeExact(1)),
			}},
		},
		resource.TestStep{
			Config:            choosing(n, body("preview = false")),
			ConfigStateChecks: choiceChecks(listOf(n+"-0", n+"-1", n+"-2"), knownvalue.Null(), knownvalue.Null(), knownvalue.Null()),
		},
	)
}

// waitUntilChosen waits until a placement has so many clusters.
func waitUntilChosen(t *testing.T, namespace, name string, number int) {
	t.Helper()
	o, placement := acctest.Someone(t), &clusterv1beta1.Placement{}
	o.Wait(placement, namespace, name, func() bool { return int(placement.Status.NumberOfSelectedClusters) == number })
}

// Out of the data source, what is expected is in the plan, and guards it.
func TestAccPlacementIsPlannedByAPreview(t *testing.T) {
	const n = "placement-guarded"
	spec := func(number int) string {
		return fmt.Sprintf("  number_of_clusters = %d\n  tolerations = [{ operator = \"Exists\" }]\n", number)
	}
	config := func(number int, more string) string {
		return choosing(n, spec(number)+"  planned_clusters = data.muster_placement_preview.test.clusters\n"+more) +
			fmt.Sprintf("data \"muster_placement_preview\" \"test\" {\n  namespace = %q\n  name = \"where\"\n%s}\n", n, spec(number))
	}
	acctest.Run(t,
		resource.TestStep{
			PreConfig: func() { acctest.Someone(t).Namespace(n) },
			Config:    choosing(n, "  number_of_clusters = 0\n  depends_on = [muster_managed_cluster.many, muster_managed_cluster_set_binding.test]\n"),
		},
		resource.TestStep{
			Config: config(3, ""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectKnownValue(placementAddress, tfjsonpath.New("planned_clusters"), listOf(n+"-0", n+"-1", n+"-2")),
				plancheck.ExpectKnownValue(placementAddress, tfjsonpath.New("planned_added"), listOf(n+"-0", n+"-1", n+"-2")),
				plancheck.ExpectKnownValue(placementAddress, tfjsonpath.New("planned_dropped"), listOf()),
			}},
		},
		resource.TestStep{
			Config: config(1, ""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectKnownValue(placementAddress, tfjsonpath.New("planned_dropped"), listOf(n+"-1", n+"-2")),
			}},
		},
		resource.TestStep{
			Config:      config(0, "  lifecycle {\n    precondition {\n      condition     = length(data.muster_placement_preview.test.dropped) == 0\n      error_message = \"It would drop clusters.\"\n    }\n  }\n"),
			PlanOnly:    true,
			ExpectError: regexp.MustCompile("It would drop clusters"),
		},
	)
}

// While the scheduler is kept away, nothing is expected and nobody waits for it.
func TestAccPlacementWithoutScheduling(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		PreConfig:         func() { acctest.Someone(t).Namespace("placement-still") },
		Config:            acctest.PlacementConfig("placement-still", `annotations = { "`+cluster.SchedulingDisabledAnnotation+`" = "true" }`),
		ConfigStateChecks: choiceChecks(knownvalue.Null(), knownvalue.Null(), knownvalue.Null(), knownvalue.Null()),
	})
}
