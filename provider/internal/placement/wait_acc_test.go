package placement_test

import (
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

func TestAccPlacementWaits(t *testing.T) {
	const n = "placement-waits"
	body := func(more string) string {
		return "  tolerations = [{ operator = \"Exists\" }]\n  depends_on = [muster_managed_cluster_set_binding.test]\n" + more
	}
	ready := func(want bool) []statecheck.StateCheck {
		return []statecheck.StateCheck{statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("ready"), knownvalue.Bool(want))}
	}
	const impossible = "  number_of_clusters = 5\n  wait = { satisfied = true }\n  timeouts {\n    create = \"2s\"\n    update = \"2s\"\n  }\n"
	acctest.Run(t,
		resource.TestStep{
			PreConfig:          func() { acctest.Someone(t).Namespace(n) },
			Config:             choosing(n, body(impossible)),
			ConfigStateChecks:  ready(false),
			ExpectNonEmptyPlan: true, // The next apply waits again.
		},
		resource.TestStep{
			Config:      choosing(n, body(impossible)),
			ExpectError: regexp.MustCompile(`(?s)Not ready: placement.*PlacementSatisfied: it is False.*2 cluster decisions unscheduled.*kubectl\s+describe\s+placement`),
		},
		resource.TestStep{
			Config:            choosing(n, body("  number_of_clusters = 3\n  wait = { satisfied = true, min_clusters = 3, conditions = [\"PlacementMisconfigured=False\"] }\n")),
			ConfigStateChecks: append(ready(true), statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("selected_clusters"), knownvalue.ListSizeExact(3))),
		},
		resource.TestStep{
			Config:            choosing(n, body("  number_of_clusters = 3\n")),
			ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownValue(placementAddress, tfjsonpath.New("ready"), knownvalue.Null())},
		},
	)
}
