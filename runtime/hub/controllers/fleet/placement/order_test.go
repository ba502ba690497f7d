package placement

import (
	"strings"
	"testing"

	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

func TestDecisionsThatTakeClustersOverAreWrittenFirst(t *testing.T) {
	for name, x := range map[string]struct{ present, want, order string }{
		"nothing there":             {"", "a b|c d", "1 2"},
		"nothing moves":             {"a b|c d", "a b|c d", "1 2"},
		"a cluster comes in front":  {"b c|d", "a b|c d", "2 1"},
		"through several":           {"b c|d e|f", "a b|c d|e f", "3 2 1"},
		"a cluster in front leaves": {"a b|c d|e", "b c|d e", "1 2"},
		"into a new one":            {"a b", "a|b", "2 1"},
		"given to each other":       {"a b|c d", "c b|a d", "2 1"},
		"one leaves for good":       {"a x|b", "a|b", "1 2"},
	} {
		t.Run(name, func(t *testing.T) {
			decision := func(i int) string { return string(rune('1' + i)) }
			present := map[string]*clusterv1beta1.PlacementDecision{}
			for i, list := range strings.Split(x.present, "|") {
				d := &clusterv1beta1.PlacementDecision{}
				for _, c := range strings.Fields(list) {
					d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: c})
				}
				present[decision(i)] = d
			}
			var want []scheduling.Decision
			for i, list := range strings.Split(x.want, "|") {
				want = append(want, scheduling.Decision{Name: decision(i), Clusters: strings.Fields(list)})
			}
			var got []string
			for _, d := range inSafeOrder(want, present) {
				got = append(got, d.Name)
			}
			if order := strings.Join(got, " "); order != x.order {
				t.Errorf("the order is %s, want %s", order, x.order)
			}
		})
	}
}
