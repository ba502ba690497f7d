// Package scheduling chooses clusters for placements. It is a pure function
// from a snapshot to a result: no client, no clock, no state. The hub's
// placement controller calls it, and so can whoever wants to know what a
// placement would choose.
//
// Compile reads a placement once; Schedule then decides over a snapshot: filters
// say which clusters qualify, prioritizers how well, and the best are chosen.
// The result explains itself when asked: who was filtered by what, who scored
// what, and why the cut fell where it did.
//
// Whoever keeps results up to date, instead of deciding anew, asks the same
// Compiled about one cluster at a time and concludes from what it has gathered.
package scheduling

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// Input is a snapshot of what a decision depends on.
type Input struct {
	Placement *clusterv1beta1.Placement
	// Sets tells which cluster sets the placement chooses from.
	Sets Sets
	// Clusters are the members of those sets that are not being deleted.
	Clusters []*clusterv1.ManagedCluster
	// Selected are the clusters in the placement's present decisions.
	Selected map[string]bool
	// Elsewhere counts in how many decisions of all other placements a cluster is.
	Elsewhere map[string]int
	// Score looks up the AddOnPlacementScore of a cluster; nil when there is none.
	Score ScoreGetter
	// Now is the time, for tolerations and scores that expire.
	Now time.Time
	// Options are the hub's. Schedule of a Compiled goes by those that the
	// placement was compiled with.
	Options Options
	// Explain asks for explanations, which take more time than the decision.
	Explain bool
}

// Sets tells which cluster sets a placement chooses from.
type Sets struct {
	// Bound are the existing sets that are bound to the placement's namespace.
	Bound []string
	// Eligible are those of them that the placement names, or all.
	Eligible []string
}

// Result is a decision.
type Result struct {
	// Groups are the chosen clusters by decision group, in the order of groups.
	Groups []Group
	// Selected is how many clusters are chosen.
	Selected int
	// Misconfigured is what is wrong with the placement, when it shows.
	Misconfigured *Problem
	// Warning is what is amiss and does not keep clusters from being chosen: scores
	// that have expired.
	Warning *Problem
	// Costly tells on which clusters expressions were given up because of what they
	// cost.
	Costly Costly
	// Conditions are PlacementMisconfigured and PlacementSatisfied, in this
	// order, which clients rely on. Their times are not set.
	Conditions []metav1.Condition
	// RequeueAfter is when the result ceases to hold, because a toleration or a
	// score expires; 0 is never.
	RequeueAfter time.Duration

	// Filters tell step by step which clusters were left.
	Filters []FilterResult
	// Scores tell what each prioritizer gave to the clusters, by weight.
	Scores []PrioritizerResult
	// Total is each candidate's weighted sum.
	Total map[string]int64
	// Explanations tell of each cluster why it is chosen or not: the candidates by
	// rank, then those that were filtered, by name. They are there when asked for.
	Explanations []Explanation
}

// Group is a decision group.
type Group struct {
	// Name is the one that the placement gives it; "" for the clusters that no
	// named group took.
	Name string
	// Clusters are in the order that the placement's sortBy asks for.
	Clusters []string
}

// FilterResult is what one filter left.
type FilterResult struct {
	// Name is the filter's, after those of all before it: "Predicate,TaintToleration".
	Name string
	// Clusters are the names of those that are left.
	Clusters []string
}

// PrioritizerResult is what one prioritizer gave.
type PrioritizerResult struct {
	Name   string
	Weight int32
	Scores map[string]int64
}

// Schedule decides. The same snapshot always gives the same result.
func Schedule(in Input) Result { return Compile(in.Placement, in.Options).Schedule(in) }

// Schedule decides for the placement that was compiled; the one of the snapshot
// is not looked at.
func (c *Compiled) Schedule(in Input) Result {
	result, _ := c.ScheduleWithin(context.Background(), in)
	return result
}

// ScheduleWithin is Schedule for who does not wait for ever: its error is that
// the context has ended.
func (c *Compiled) ScheduleWithin(ctx context.Context, in Input) (Result, error) {
	var result Result
	candidates, problem, err := c.filter(ctx, in, &result)
	if err != nil {
		return Result{}, err
	}
	if problem == nil {
		problem = c.prioritizerProblem
	}
	var warning *Problem
	var ranked []Ranked
	if problem == nil {
		warning = c.prioritize(in, candidates, &result)
		ranked = make([]Ranked, 0, len(candidates))
		for _, x := range candidates {
			ranked = append(ranked, Ranked{View: x.View, Total: result.Total[x.Name], Avoid: x.avoid})
		}
		slices.SortFunc(ranked, Compare)
	}
	choice := c.Choose(ranked)
	c.Conclude(Outcome{Sets: in.Sets, Available: len(in.Clusters), Chosen: choice.Chosen, Misconfigured: problem, Warning: warning, Costly: result.Costly}, &result)
	if in.Explain {
		result.Explanations = c.explain(ctx, in, ranked, choice, &result)
	}
	return result, ctx.Err()
}

// Outcome is what the conclusion is drawn from.
type Outcome struct {
	Sets Sets
	// Available is how many clusters there are to choose from.
	Available int
	// Chosen are the chosen clusters, the best first; none when the placement is
	// misconfigured.
	Chosen []Ranked
	// Misconfigured, Warning and Costly are as in the result.
	Misconfigured, Warning *Problem
	Costly                 Costly
}

// Conclude divides the chosen clusters into groups and tells the conditions. It
// leaves the fields of the result alone that filters and prioritizers fill.
func (c *Compiled) Conclude(o Outcome, result *Result) {
	result.Warning, result.Misconfigured, result.Costly = o.Warning, o.Misconfigured, o.Costly
	result.Selected = len(o.Chosen)
	if c.groupProblem != nil {
		result.Selected = 0
		if o.Misconfigured == nil {
			result.Misconfigured = c.groupProblem
		}
	} else {
		result.Groups = c.divide(o.Chosen)
	}
	result.Conditions = c.conditions(o.Sets, o.Available, result.Selected, result.Misconfigured, o.Costly)
}

// Costly tells on how many clusters expressions were given up because of what
// they cost.
type Costly struct {
	// Clusters is how many.
	Clusters int
	// First is the first of them by name, and Expression what was given up there.
	First, Expression string
}

func (c *Costly) add(cluster string, v Verdict) {
	if v.Costly != "" {
		c.Add(cluster, v.Costly)
	}
}

// Add counts a cluster, and the expression that was given up there.
func (c *Costly) Add(cluster, expression string) {
	if c.Clusters == 0 || cluster < c.First {
		c.First, c.Expression = cluster, expression
	}
	c.Clusters++
}

// earliest is the sooner of two durations of which 0 is for ever.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
