// Package scheduling chooses clusters for placements. It is a pure function
// from a snapshot to a result: no client, no clock, no state. The hub's
// placement controller calls it, and so can whoever wants to know what a
// placement would choose.
//
// Filters say which clusters qualify, prioritizers how well, each as a small
// plugin behind an interface. The result explains itself: who was filtered by
// what, who scored what.
package scheduling

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
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
	Score func(clusterName, resourceName string) *clusterv1alpha1.AddOnPlacementScore
	// Now is the time, for tolerations and scores that expire.
	Now time.Time
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
}

// Group is a decision group.
type Group struct {
	// Name is the one that the placement gives it; "" for the clusters that no
	// named group took.
	Name string
	// Clusters are sorted by name.
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

// code says how a plugin fared.
type code int

const (
	success code = iota
	warning
	misconfigured
)

// outcome is how a plugin fared, and why not well.
type outcome struct {
	code    code
	plugin  string
	message string
}

// Schedule decides. The same snapshot always gives the same result.
func Schedule(in Input) Result {
	var result Result
	clusters, problem := filter(in, &result)
	if problem.code == success {
		problem = prioritize(in, clusters, &result)
	}
	if problem.code == misconfigured {
		clusters = nil
	}
	selected := choose(in, clusters, result.Total)
	groups, grouping := group(in.Placement.Spec.DecisionStrategy.GroupStrategy, selected)
	if problem.code != misconfigured && grouping.code != success {
		problem, selected = grouping, nil
	}
	result.Groups = groups
	result.Selected = len(selected)
	result.Conditions = conditions(in, len(selected), problem)
	return result
}

// choose takes the best clusters, by score and then by name.
func choose(in Input, clusters []*clusterv1.ManagedCluster, total map[string]int64) []*clusterv1.ManagedCluster {
	sorted := slices.Clone(clusters)
	slices.SortFunc(sorted, func(a, b *clusterv1.ManagedCluster) int {
		return cmp.Or(cmp.Compare(total[b.Name], total[a.Name]), cmp.Compare(a.Name, b.Name))
	})
	if n := in.Placement.Spec.NumberOfClusters; n != nil {
		sorted = sorted[:min(len(sorted), max(0, int(*n)))]
	}
	return sorted
}

// earliest is the sooner of two durations of which 0 is for ever.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func names(clusters []*clusterv1.ManagedCluster) []string {
	out := make([]string, 0, len(clusters))
	for _, c := range clusters {
		out = append(out, c.Name)
	}
	return out
}
