// Package scheduling chooses clusters for placements. It is a pure function
// from a snapshot to a result, without a client, clock or state. The hub's
// placement controller, its debug endpoint and the provider's preview call it.
// It must not import any of them.
//
// Compile reads a placement once; Schedule then decides over a snapshot:
// filters select the clusters that qualify, prioritizers score them, and the
// best are chosen. On request the result explains itself: which filter excluded
// a cluster, which scores it got, and why it was chosen or not.
//
// A caller that keeps results up to date incrementally uses the same Compiled
// for one cluster at a time: see the package incremental.
package scheduling

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// Input is a snapshot of everything that a decision depends on.
type Input struct {
	Placement *clusterv1beta1.Placement
	// Sets are the cluster sets that the placement chooses from.
	Sets Sets
	// Clusters are the members of those sets that are not being deleted.
	Clusters []*clusterv1.ManagedCluster
	// Selected are the clusters in the placement's present decisions.
	Selected map[string]bool
	// Elsewhere is, for each cluster, the number of decisions of other
	// placements that it is in.
	Elsewhere map[string]int
	// Score looks up the AddOnPlacementScore of a cluster. It returns nil when
	// there is none.
	Score ScoreGetter
	// Now is the time at which tolerations and scores expire.
	Now time.Time
	// Options are the hub's. Compiled.Schedule uses the options that the
	// placement was compiled with.
	Options Options
	// Explain requests explanations, which take more time than the decision.
	Explain bool
}

// Sets are the cluster sets that a placement chooses from.
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
	// Misconfigured is the mistake in the placement, if one was found.
	Misconfigured *Problem
	// Warning is a problem that does not prevent a choice: scores that have
	// expired.
	Warning *Problem
	// Costly summarises the clusters on which expressions were given up because
	// of their cost.
	Costly Costly
	// Conditions are PlacementMisconfigured and PlacementSatisfied, in this
	// order, which clients rely on. Their times are not set.
	Conditions []metav1.Condition
	// RequeueAfter is how long the result is valid, because a toleration or a
	// score expires then; 0 means forever.
	RequeueAfter time.Duration

	// Filters are the clusters that remain after each step.
	Filters []FilterResult
	// Scores are the scores that each prioritizer gave.
	Scores []PrioritizerResult
	// Total is each candidate's weighted sum.
	Total map[string]int64
	// Explanations say for each cluster why it is chosen or not: the candidates
	// by rank, then the filtered ones by name. They are only set on request.
	Explanations []Explanation
}

// Group is a decision group.
type Group struct {
	// Name is the name from the placement; "" for the clusters that are in no
	// named group.
	Name string
	// Clusters are in the order that the placement's sortBy asks for.
	Clusters []string
}

// FilterResult is what remains after one filter.
type FilterResult struct {
	// Name is the name of the filter, after those of all earlier filters:
	// "Predicate,TaintToleration".
	Name string
	// Clusters are the names of the remaining clusters.
	Clusters []string
}

// PrioritizerResult is the scores of one prioritizer.
type PrioritizerResult struct {
	Name   string
	Weight int32
	Scores map[string]int64
}

// Schedule decides. The same snapshot always gives the same result.
func Schedule(in Input) Result { return Compile(in.Placement, in.Options).Schedule(in) }

// Schedule decides for the compiled placement; the placement in the snapshot is
// ignored.
func (c *Compiled) Schedule(in Input) Result {
	result, _ := c.ScheduleWithin(context.Background(), in)
	return result
}

// ScheduleWithin is Schedule with a context. It returns an error only when the
// context has ended.
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

// Outcome is the input of Conclude.
type Outcome struct {
	Sets Sets
	// Available is how many clusters the placement can choose from.
	Available int
	// Chosen are the chosen clusters in order of rank; none when the placement
	// is misconfigured.
	Chosen []Ranked
	// Misconfigured, Warning and Costly are as in the result.
	Misconfigured, Warning *Problem
	Costly                 Costly
}

// Conclude divides the chosen clusters into groups and computes the conditions.
// It does not set the fields of the result that filters and prioritizers fill.
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

// Costly summarises the clusters on which expressions were given up because of
// their cost.
type Costly struct {
	// Clusters is their number.
	Clusters int
	// First is the first of them by name, and Expression the one that was given
	// up there.
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

// earliest is the shorter of two durations, where 0 means forever.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
