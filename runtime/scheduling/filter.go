package scheduling

import (
	"context"
	"strings"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// The names of the filters, in the order in which they run.
const (
	predicateFilter = "Predicate"
	taintFilter     = "TaintToleration"
)

// candidate is a cluster that passed the filters.
type candidate struct {
	*View
	avoid bool
}

// filter returns the clusters that satisfy a predicate and whose taints are
// tolerated, and records the result of both steps.
func (c *Compiled) filter(ctx context.Context, in Input, result *Result) ([]candidate, *Problem, error) {
	all := views(in.Clusters)
	if len(all) > 0 && c.unreadable() != nil {
		return nil, c.unreadable(), nil
	}
	var matching []*View
	for _, v := range all {
		verdict, err := c.Judge(ctx, v, in.Score)
		if err != nil {
			return nil, nil, err
		}
		if verdict.Matches {
			matching = append(matching, v)
		}
		result.Costly.add(v.Name, verdict)
	}
	result.Filters = append(result.Filters, FilterResult{Name: predicateFilter, Clusters: names(matching)})
	if len(matching) > 0 && c.tolerationProblem != nil {
		return nil, c.tolerationProblem, nil
	}
	var left []candidate
	for _, v := range matching {
		t := c.Tolerates(v, in.Selected[v.Name], in.Now)
		// Only chosen clusters need a timer; a new one gets its own once it is
		// chosen.
		if in.Selected[v.Name] && !t.Until.IsZero() {
			result.RequeueAfter = earliest(result.RequeueAfter, within(t.Until, in.Now))
		}
		if t.OK {
			left = append(left, candidate{v, t.Avoid})
		}
	}
	result.Filters = append(result.Filters, FilterResult{
		Name: strings.Join([]string{predicateFilter, taintFilter}, ","), Clusters: names(left),
	})
	return left, nil, nil
}

// named is anything with the name of a cluster.
type named interface{ GetName() string }

func names[C named](clusters []C) []string {
	out := make([]string, 0, len(clusters))
	for _, c := range clusters {
		out = append(out, c.GetName())
	}
	return out
}

var _ named = (*clusterv1.ManagedCluster)(nil)
