package provider

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

func names(list ...string) types.List { return stringListValue(append([]string{}, list...)) }

// What the live fleet tells never becomes a known value of a plan: Terraform
// plans a second time before it writes, and would take another answer for an
// error.
func TestWhatAPlanKnowsOfAChoice(t *testing.T) {
	null, unknown := types.ListNull(types.StringType), types.ListUnknown(types.StringType)
	state := placementChoiceModel{SelectedClusters: names("a", "b"), PlannedClusters: names("a"), PlannedAdded: names("a"), PlannedDropped: names()}
	undecided := placementChoiceModel{SelectedClusters: null, PlannedClusters: null, PlannedAdded: null, PlannedDropped: null}
	for name, test := range map[string]struct {
		state          *placementChoiceModel
		expected       types.List
		changes, waits bool
		want           placementChoiceModel
	}{
		"new":                            {nil, null, true, false, placementChoiceModel{unknown, unknown, unknown, unknown}},
		"new, expected":                  {nil, names("c"), true, false, placementChoiceModel{unknown, names("c"), names("c"), names()}},
		"new, expected but not known":    {nil, unknown, true, false, placementChoiceModel{unknown, unknown, unknown, unknown}},
		"changed":                        {&state, null, true, false, placementChoiceModel{unknown, unknown, unknown, unknown}},
		"changed, expected":              {&state, names("b", "c"), true, false, placementChoiceModel{unknown, names("b", "c"), names("c"), names("a")}},
		"changed, expected, none before": {&undecided, names("b"), true, false, placementChoiceModel{unknown, names("b"), null, null}},
		"unchanged":                      {&state, null, false, false, state},
		"unchanged, the fleet moves on":  {&state, names("b", "c"), false, false, state},
		"unchanged, waits again":         {&state, null, false, true, placementChoiceModel{unknown, names("a"), names("a"), names()}},
		"unchanged, expected anew":       {&undecided, names("b"), false, false, placementChoiceModel{null, names("b"), null, null}},
		"unchanged, nothing to say":      {&undecided, null, false, false, undecided},
	} {
		t.Run(name, func(t *testing.T) {
			var before *placementModel
			if test.state != nil {
				before = &placementModel{placementChoiceModel: *test.state}
			}
			if got := choiceAfter(before, test.expected, test.changes, test.waits); got.text() != test.want.text() {
				t.Errorf("got  %s\nwant %s", got.text(), test.want.text())
			}
		})
	}
}

func (m placementChoiceModel) text() string {
	return fmt.Sprintf("selected %s planned %s added %s dropped %s", m.SelectedClusters, m.PlannedClusters, m.PlannedAdded, m.PlannedDropped)
}

func TestWhatAWarningSaysOfAChange(t *testing.T) {
	conditions := func(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: cluster.ConditionPlacementSatisfied, Status: status, Reason: reason, Message: message}}
	}
	satisfied := conditions("True", cluster.ReasonAllDecisionsScheduled, "x")
	var many []string
	for i := range 25 {
		many = append(many, fmt.Sprintf("c%02d", i))
	}
	for name, test := range map[string]struct {
		preview  placementPreview
		creating bool
		want     []string // summary, then parts of the detail; none: nothing is said
		not      string
	}{
		"new": {placementPreview{Result: scheduling.Result{Conditions: satisfied}, Clusters: []string{"a", "b"}, Added: []string{"a", "b"}}, true,
			[]string{`Placement "n/p" would select 2 clusters`, "It would select 2 clusters: a, b.", "preview = false"}, "satisfied"},
		"new, in a fleet without a match": {placementPreview{Result: scheduling.Result{Conditions: conditions("False", cluster.ReasonNoManagedClusterMatched, "No match")}}, true,
			[]string{`Placement "n/p" would select no cluster`, "would not be satisfied (NoManagedClusterMatched): No match"}, ""},
		"new, before there is a fleet": {placementPreview{Result: scheduling.Result{Conditions: conditions("False", cluster.ReasonNoManagedClusterSetBindings, "x")}}, true, nil, ""},
		"no effect":                    {placementPreview{Result: scheduling.Result{Conditions: satisfied}, Clusters: []string{"a"}}, false, nil, ""},
		"changed": {placementPreview{Result: scheduling.Result{Conditions: satisfied}, Clusters: []string{"a", "b"}, Added: []string{"b"}, Dropped: []string{"x", "y"}}, false,
			[]string{`Placement "n/p" would add 1 and drop 2 of its clusters`, "It would add 1 cluster: b.", "It would drop 2 clusters: x, y.", "leaves it with 2 clusters"}, ""},
		"nothing left": {placementPreview{Result: scheduling.Result{Conditions: satisfied}, Dropped: []string{"x"}}, false,
			[]string{`Placement "n/p" would add 0 and drop 1 of its clusters`, "leaves it with no cluster"}, "It would add"},
		"many": {placementPreview{Result: scheduling.Result{Conditions: satisfied}, Clusters: many, Added: many}, true,
			[]string{`Placement "n/p" would select 25 clusters`, "c19 and 5 more."}, "c20"},
		"misconfigured": {placementPreview{Result: scheduling.Result{Conditions: append(conditions("False", cluster.ReasonNoManagedClusterMatched, "No match"),
			metav1.Condition{Type: cluster.ConditionPlacementMisconfigured, Status: "True", Message: "Predicate:bad"})}, Dropped: []string{"x"}}, false,
			[]string{`Placement "n/p" would add 0 and drop 1 of its clusters`, "misconfigured: Predicate:bad"}, "No match"},
	} {
		t.Run(name, func(t *testing.T) {
			summary, detail := foretold(`placement "n/p"`, test.preview, test.creating)
			if len(test.want) == 0 {
				if summary != "" {
					t.Errorf("said %q, %q, want nothing", summary, detail)
				}
				return
			}
			if summary != test.want[0] {
				t.Errorf("the summary is %q, want %q", summary, test.want[0])
			}
			for _, part := range test.want[1:] {
				if !strings.Contains(detail, part) {
					t.Errorf("%q is missing in:\n%s", part, detail)
				}
			}
			if test.not != "" && strings.Contains(detail, test.not) {
				t.Errorf("%q has no place in:\n%s", test.not, detail)
			}
		})
	}
}

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
`, name) + placementConfig(name, body)
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
	accTest(t,
		resource.TestStep{
			PreConfig:         func() { someone(t).namespace(n) },
			Config:            config,
			ConfigStateChecks: choiceChecks(listOf(n+"-0", n+"-1", n+"-2"), listOf(n+"-0", n+"-1", n+"-2"), listOf(n+"-0", n+"-1", n+"-2"), listOf()),
		},
		resource.TestStep{
			PreConfig: func() {
				o, mc := someone(t), &clusterv1.ManagedCluster{}
				o.patch(mc, "", n+"-1", `{"metadata":{"labels":{"`+cluster.ClusterSetLabel+`":"elsewhere"}}}`)
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
	o, placement := someone(t), &clusterv1beta1.Placement{}
	o.wait(placement, namespace, name, func() bool { return int(placement.Status.NumberOfSelectedClusters) == number })
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
	accTest(t,
		resource.TestStep{
			PreConfig: func() { someone(t).namespace(n) },
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
	accTest(t, resource.TestStep{
		PreConfig:         func() { someone(t).namespace("placement-still") },
		Config:            placementConfig("placement-still", `annotations = { "`+cluster.SchedulingDisabledAnnotation+`" = "true" }`),
		ConfigStateChecks: choiceChecks(knownvalue.Null(), knownvalue.Null(), knownvalue.Null(), knownvalue.Null()),
	})
}

func TestDifference(t *testing.T) {
	added, dropped := difference([]string{"c", "b", "a"}, []string{"b", "e", "d"})
	if !slices.Equal(added, []string{"d", "e"}) || !slices.Equal(dropped, []string{"a", "c"}) {
		t.Errorf("added %q, dropped %q", added, dropped)
	}
}
