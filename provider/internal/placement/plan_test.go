package placement

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

func names(list ...string) types.List { return attribute.StringListValue(append([]string{}, list...)) }

// What the live fleet tells never becomes a known value of a plan: Terraform
// plans a second time before it writes, and would take another answer for an
// error.
func TestWhatAPlanKnowsOfAChoice(t *testing.T) {
	null, unknown := types.ListNull(types.StringType), types.ListUnknown(types.StringType)
	state := chosen(names("a", "b"), names("a"), names("a"), names())
	undecided := chosen(null, null, null, null)
	for name, test := range map[string]struct {
		state          values
		expected       types.List
		changes, waits bool
		want           values
	}{
		"new":                            {nil, null, true, false, chosen(unknown, unknown, unknown, unknown)},
		"new, expected":                  {nil, names("c"), true, false, chosen(unknown, names("c"), names("c"), names())},
		"new, expected but not known":    {nil, unknown, true, false, chosen(unknown, unknown, unknown, unknown)},
		"changed":                        {state, null, true, false, chosen(unknown, unknown, unknown, unknown)},
		"changed, expected":              {state, names("b", "c"), true, false, chosen(unknown, names("b", "c"), names("c"), names("a"))},
		"changed, expected, none before": {undecided, names("b"), true, false, chosen(unknown, names("b"), null, null)},
		"unchanged":                      {state, null, false, false, state},
		"unchanged, the fleet moves on":  {state, names("b", "c"), false, false, state},
		"unchanged, waits again":         {state, null, false, true, chosen(unknown, names("a"), names("a"), names())},
		"unchanged, expected again":      {undecided, names("b"), false, false, chosen(null, names("b"), null, null)},
		"unchanged, nothing to say":      {undecided, null, false, false, undecided},
	} {
		t.Run(name, func(t *testing.T) {
			got := choiceAfter(test.state, test.expected, test.changes, test.waits)
			if !maps.EqualFunc(got, test.want, attr.Value.Equal) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// chosen is a placement's choice.
func chosen(selected, planned, added, dropped types.List) values {
	return values{
		"selected_clusters": selected, "planned_clusters": planned, "planned_added": added, "planned_dropped": dropped,
	}
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
		preview hub.Preview
		want    []string // summary, then parts of the detail; none: nothing is said
		not     string
	}{
		"no effect": {hub.Preview{Result: scheduling.Result{Conditions: satisfied}, Clusters: []string{"a"}}, nil, ""},
		"changed": {hub.Preview{Result: scheduling.Result{Conditions: satisfied}, Clusters: []string{"a", "b"}, Added: []string{"b"}, Dropped: []string{"x", "y"}},
			[]string{`Placement "n/p" would add 1 and drop 2 of its clusters`, "It would add 1 cluster: b.", "It would drop 2 clusters: x, y.", "leaves it with 2 clusters"}, ""},
		"nothing left": {hub.Preview{Result: scheduling.Result{Conditions: satisfied}, Dropped: []string{"x"}},
			[]string{`Placement "n/p" would add 0 and drop 1 of its clusters`, "leaves it with no cluster"}, "It would add"},
		"many": {hub.Preview{Result: scheduling.Result{Conditions: satisfied}, Clusters: many, Added: many},
			[]string{`Placement "n/p" would add 25 and drop 0 of its clusters`, "c19 and 5 more."}, "c20"},
		"misconfigured": {hub.Preview{Result: scheduling.Result{Conditions: append(conditions("False", cluster.ReasonNoManagedClusterMatched, "No match"),
			metav1.Condition{Type: cluster.ConditionPlacementMisconfigured, Status: "True", Message: "Predicate:bad"})}, Dropped: []string{"x"}},
			[]string{`Placement "n/p" would add 0 and drop 1 of its clusters`, "misconfigured: Predicate:bad"}, "No match"},
	} {
		t.Run(name, func(t *testing.T) {
			summary, detail := changeWarning(`placement "n/p"`, test.preview)
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
