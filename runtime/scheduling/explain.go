package scheduling

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// Explanation explains why a cluster is chosen, or not.
type Explanation struct {
	// Cluster is the cluster's name.
	Cluster string `json:"clusterName"`
	// Selected is whether it is chosen.
	Selected bool `json:"selected"`
	// Filter is the name of the filter that excluded it, or "".
	Filter string `json:"filter,omitempty"`
	// Rank is the cluster's rank among the candidates, from 1; 0 when it was
	// filtered.
	Rank int `json:"rank,omitempty"`
	// Total is the weighted sum of the scores.
	Total int64 `json:"score"`
	// Scores are the scores from the prioritizers.
	Scores []ExplainedScore `json:"scores,omitempty"`
	// Reasons are the decisive facts as text: what did not match in each
	// predicate, which taints are not tolerated, the rank, and how many
	// clusters were asked for.
	Reasons []string `json:"reasons"`
}

// ExplainedScore is the score that a prioritizer gave to a cluster.
type ExplainedScore struct {
	// Name is the name of the prioritizer.
	Name string `json:"name"`
	// Weight is the factor of the score.
	Weight int32 `json:"weight"`
	// Score is the score; 0 when the prioritizer gave none.
	Score int64 `json:"score"`
}

// String is the explanation as a line of text.
func (e Explanation) String() string {
	var b strings.Builder
	b.WriteString(e.Cluster)
	switch {
	case e.Selected:
		b.WriteString(": selected: ")
	case e.Filter != "":
		fmt.Fprintf(&b, ": filtered by %s: ", e.Filter)
	default:
		b.WriteString(": not selected: ")
	}
	b.WriteString(strings.Join(e.Reasons, "; "))
	if e.Rank > 0 {
		fmt.Fprintf(&b, "; score %d", e.Total)
		for i, s := range e.Scores {
			b.WriteString([]string{" = ", " + "}[min(i, 1)])
			fmt.Fprintf(&b, "%d×%s %d", s.Weight, s.Name, s.Score)
		}
	}
	return b.String()
}

// explain explains for each cluster why it is chosen or not.
func (c *Compiled) explain(ctx context.Context, in Input, ranked []Ranked, choice Choice, result *Result) []Explanation {
	if p := result.Misconfigured; p != nil {
		return explainProblem(in, p)
	}
	chosen := map[string]bool{}
	for _, r := range choice.Chosen {
		chosen[r.Name] = true
	}
	out := make([]Explanation, 0, len(in.Clusters))
	candidates := make(map[string]bool, len(ranked))
	for i, r := range ranked {
		candidates[r.Name] = true
		e := Explanation{Cluster: r.Name, Selected: chosen[r.Name], Rank: i + 1, Total: r.Total}
		for _, s := range result.Scores {
			e.Scores = append(e.Scores, ExplainedScore{s.Name, s.Weight, s.Scores[r.Name]})
		}
		e.Reasons = c.explainRank(in, r, i+1, len(ranked), choice)
		out = append(out, e)
	}
	var filtered []Explanation
	for _, v := range views(in.Clusters) {
		if !candidates[v.Name] {
			filtered = append(filtered, c.explainFilter(ctx, in, v))
		}
	}
	slices.SortFunc(filtered, func(a, b Explanation) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return append(out, filtered...)
}

// explainProblem gives the same reason for all clusters: nothing is chosen.
func explainProblem(in Input, p *Problem) []Explanation {
	var out []Explanation
	for _, name := range slices.Sorted(slices.Values(names(in.Clusters))) {
		out = append(out, Explanation{Cluster: name, Filter: p.Plugin, Reasons: []string{"the placement is misconfigured: " + p.Message}})
	}
	return out
}

func (c *Compiled) explainRank(in Input, r Ranked, rank, of int, choice Choice) []string {
	reason := fmt.Sprintf("rank %d of %d", rank, of)
	if n, limited := c.NumberOfClusters(); limited {
		reason += fmt.Sprintf(", %d asked for", n)
	} else {
		reason += ", all asked for"
	}
	out := []string{reason}
	if choice.passed[r.Name] {
		out = append(out, "others spread better")
	}
	if why := choice.refused[r.Name]; why != "" {
		out = append(out, why)
	}
	for i := range r.Spec.Taints {
		if _, avoid, _ := c.tolerates(&r.Spec.Taints[i], in.Selected[r.Name], in.Now); avoid {
			out = append(out, fmt.Sprintf("after all without an untolerated taint: %s", taintText(&r.Spec.Taints[i])))
		}
	}
	return out
}

func (c *Compiled) explainFilter(ctx context.Context, in Input, v *View) Explanation {
	e := Explanation{Cluster: v.Name}
	if verdict, err := c.Judge(ctx, v, in.Score); err != nil || !verdict.Matches {
		e.Filter = predicateFilter
		x := newEvaluation(v, in.Score)
		for i := range c.predicates {
			e.Reasons = append(e.Reasons, fmt.Sprintf("predicates[%d]: %s", i, x.explain(ctx, &c.predicates[i])))
		}
		return e
	}
	e.Filter = taintFilter
	for i := range v.Spec.Taints {
		taint := &v.Spec.Taints[i]
		if ok, _, _ := c.tolerates(taint, in.Selected[v.Name], in.Now); !ok {
			e.Reasons = append(e.Reasons, c.explainTaint(taint))
		}
	}
	return e
}

// explain lists what does not match in a predicate.
func (x *evaluation) explain(ctx context.Context, p *predicate) string {
	terms := append(failed("label", p.labels, x.view.Labels), failed("claim", p.claims, x.view.Claims())...)
	if len(terms) > 0 {
		return strings.Join(terms, ", ")
	}
	text, _, err := x.firstFalse(ctx, p)
	if err != nil {
		return fmt.Sprintf("expression %q fails: %v", text, err)
	}
	return fmt.Sprintf("expression %q is false", text)
}

// failed are the requirements of a selector that a cluster does not meet.
func failed(what string, selector labels.Selector, have labels.Set) []string {
	requirements, _ := selector.Requirements()
	var out []string
	for _, r := range requirements {
		if r.Matches(have) {
			continue
		}
		value, found := have[r.Key()]
		if !found {
			value = "none"
		}
		values := "[" + strings.Join(slices.Sorted(slices.Values(r.ValuesUnsorted())), ", ") + "]"
		switch r.Operator() {
		case selection.Exists:
			out = append(out, fmt.Sprintf("%s %s: want any, have none", what, r.Key()))
		case selection.DoesNotExist:
			out = append(out, fmt.Sprintf("%s %s: want none, have %s", what, r.Key(), value))
		case selection.NotIn, selection.NotEquals:
			out = append(out, fmt.Sprintf("%s %s: want NotIn %s, have %s", what, r.Key(), values, value))
		default:
			out = append(out, fmt.Sprintf("%s %s: want In %s, have %s", what, r.Key(), values, value))
		}
	}
	return out
}

func (c *Compiled) explainTaint(taint *clusterv1.Taint) string {
	text := "untolerated taint " + taintText(taint)
	var last time.Time
	for i := range c.placement.Spec.Tolerations {
		t := &c.placement.Spec.Tolerations[i]
		if end, ends := expiry(t, taint); ends && concerns(t, taint) && end.After(last) {
			last = end
		}
	}
	if !last.IsZero() {
		text += ", tolerated until " + last.UTC().Format(time.RFC3339)
	}
	return text
}

// taintText is a taint as kubectl writes it.
func taintText(t *clusterv1.Taint) string {
	if t.Value == "" {
		return fmt.Sprintf("%s:%s", t.Key, t.Effect)
	}
	return fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect)
}

// conditions report whether the placement is valid, and whether it has as many
// clusters as it asks for.
func (c *Compiled) conditions(sets Sets, available, selected int, problem *Problem, costly Costly) []metav1.Condition {
	configured := metav1.Condition{
		Type: cluster.ConditionPlacementMisconfigured, Status: metav1.ConditionFalse,
		Reason: cluster.ReasonSucceedConfigured, Message: cluster.MessageSucceedConfigured,
	}
	if problem != nil {
		configured.Status, configured.Reason = metav1.ConditionTrue, cluster.ReasonMisconfigured
		configured.Message = problem.String()
	}
	satisfied := metav1.Condition{Type: cluster.ConditionPlacementSatisfied, Status: metav1.ConditionFalse}
	missing := 0
	if n := c.placement.Spec.NumberOfClusters; n != nil {
		missing = int(*n) - selected
	}
	switch {
	case len(sets.Bound) == 0:
		satisfied.Reason, satisfied.Message = cluster.ReasonNoManagedClusterSetBindings, cluster.MessageNoManagedClusterSetBindings
	case len(sets.Eligible) == 0:
		satisfied.Reason = cluster.ReasonNoIntersection
		satisfied.Message = fmt.Sprintf("None of ManagedClusterSets [%s] is bound to placement namespace", strings.Join(c.placement.Spec.ClusterSets, ","))
	case available == 0:
		satisfied.Reason = cluster.ReasonAllManagedClusterSetsEmpty
		satisfied.Message = fmt.Sprintf("All ManagedClusterSets [%s] have no member ManagedCluster", strings.Join(sets.Eligible, ","))
	case selected == 0:
		satisfied.Reason, satisfied.Message = cluster.ReasonNoManagedClusterMatched, cluster.MessageNoManagedClusterMatched
	case missing <= 0:
		satisfied.Status = metav1.ConditionTrue
		satisfied.Reason, satisfied.Message = cluster.ReasonAllDecisionsScheduled, cluster.MessageAllDecisionsScheduled
	default:
		satisfied.Reason, satisfied.Message = cluster.ReasonNotAllDecisionsScheduled, fmt.Sprintf("%d cluster decisions unscheduled", missing)
	}
	if costly.Clusters > 0 {
		satisfied.Message += fmt.Sprintf(cluster.MessageCostlyExpression, costly.Clusters, costly.First, expression.Excerpt(costly.Expression), ClusterBudget)
	}
	// Readers see from it whether the last change has been processed.
	configured.ObservedGeneration, satisfied.ObservedGeneration = c.placement.Generation, c.placement.Generation
	return []metav1.Condition{configured, satisfied}
}
