// Package beyond simulates placements over clusters that no single hub holds: each hub
// evaluates a placement over its own clusters, and a merge of their answers decides. The
// decision is the one that a single hub with all the clusters would make. It is not part of
// the product: docs/scale/beyond.md says what its figures mean.
package beyond

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// Hub is a hub's share of the clusters.
type Hub struct {
	Clusters []*scheduling.View
	// Selected are the clusters in the placement's present decisions, and Elsewhere the
	// number of decisions of other placements that a cluster is in.
	Selected  map[string]bool
	Elsewhere map[string]int
	Score     scheduling.ScoreGetter

	candidates []candidate
}

type candidate struct {
	*scheduling.View
	avoid bool
}

// Extremes are what scores are relative to: the least and the most of a resource that a
// candidate has free, by prioritizer, and the largest number of decisions that a cluster is
// in.
type Extremes struct {
	Free      map[string][2]float64 `json:",omitempty"`
	Decisions int                   `json:",omitempty"`
}

// Join has e hold for the clusters of other, too.
func (e *Extremes) Join(other Extremes) {
	e.Decisions = max(e.Decisions, other.Decisions)
	for name, free := range other.Free {
		e.add(name, free[0])
		e.add(name, free[1])
	}
}

func (e *Extremes) add(name string, free float64) {
	if e.Free == nil {
		e.Free = map[string][2]float64{}
	}
	known, ok := e.Free[name]
	if !ok {
		known = [2]float64{free, free}
	}
	e.Free[name] = [2]float64{min(known[0], free), max(known[1], free)}
}

// Answer is a cluster that may be chosen.
type Answer struct {
	Name   string            `json:"n"`
	Total  int64             `json:"t,omitempty"`
	Avoid  bool              `json:"a,omitempty"`
	Labels map[string]string `json:"l,omitempty"` // those that the placement spreads over
	Claims map[string]string `json:"c,omitempty"`
}

// Filter is the first round: the hub finds its candidates, and answers with their extremes.
func (h *Hub) Filter(c *scheduling.Compiled, now time.Time) (e Extremes) {
	h.candidates = nil
	for _, n := range h.Elsewhere {
		e.Decisions = max(e.Decisions, n)
	}
	for _, v := range h.Clusters {
		if !c.Matches(v, h.Score) {
			continue
		}
		t := c.Tolerates(v, h.Selected[v.Name], now)
		if !t.OK {
			continue
		}
		h.candidates = append(h.candidates, candidate{v, t.Avoid})
		for _, p := range c.Prioritizers() {
			if free, ok := scheduling.Free(v.ManagedCluster, p.Resource); ok && p.Kind == scheduling.Allocatable {
				e.add(p.Name, free)
			}
		}
	}
	return e
}

// Rank is the second round: the hub scores its candidates by the extremes of the fleet, and
// answers with those that may be chosen. These are as many as the placement asks for, and
// that many for each combination of values where it spreads over some.
func (h *Hub) Rank(c *scheduling.Compiled, fleet Extremes, now time.Time) []Answer {
	ranked := make([]scheduling.Ranked, 0, len(h.candidates))
	for _, x := range h.candidates {
		ranked = append(ranked, scheduling.Ranked{View: x.View, Total: h.total(c, x, fleet, now), Avoid: x.avoid})
	}
	slices.SortFunc(ranked, scheduling.Compare)
	limit, limited := c.NumberOfClusters()
	taken := map[string]int{}
	var answers []Answer
	for _, r := range ranked {
		a := Answer{Name: r.Name, Total: r.Total, Avoid: r.Avoid}
		a.Labels, a.Claims = topology(c, r.View)
		values, _ := json.Marshal([]any{a.Labels, a.Claims}) // strings alone
		if taken[string(values)]++; limited && taken[string(values)] > limit {
			continue
		}
		answers = append(answers, a)
	}
	return answers
}

func (h *Hub) total(c *scheduling.Compiled, x candidate, fleet Extremes, now time.Time) (total int64) {
	for _, p := range c.Prioritizers() {
		score := int64(0)
		switch p.Kind {
		case scheduling.Balance:
			score = scheduling.BalanceScore(h.Elsewhere[x.Name], fleet.Decisions)
		case scheduling.Steady:
			score = scheduling.SteadyScore(h.Selected[x.Name])
		case scheduling.Allocatable:
			if free, ok := scheduling.Free(x.ManagedCluster, p.Resource); ok {
				score = scheduling.AllocatableScore(free, fleet.Free[p.Name][0], fleet.Free[p.Name][1])
			}
		case scheduling.AddOn:
			score = scheduling.PublishedScore(h.Score(x.Name, p.AddOn.ResourceName), p.AddOn.ScoreName, now).Value
		}
		total += score * int64(p.Weight)
	}
	return total
}

// topology is a cluster's values of what a placement spreads over.
func topology(c *scheduling.Compiled, v *scheduling.View) (labels, claims map[string]string) {
	if !c.Spreads() {
		return nil, nil
	}
	labels, claims = map[string]string{}, map[string]string{}
	for _, t := range c.Placement().Spec.SpreadPolicy.SpreadConstraints {
		from, to := v.Labels, labels
		if t.TopologyKeyType == clusterv1beta1.TopologyKeyTypeClaim {
			from, to = v.Claims(), claims
		}
		if value, ok := from[t.TopologyKey]; ok {
			to[t.TopologyKey] = value
		}
	}
	return labels, claims
}

// Merge decides by the answers of all hubs. It returns the chosen clusters by rank.
func Merge(c *scheduling.Compiled, answers ...[]Answer) []string {
	var ranked []scheduling.Ranked
	for _, of := range answers {
		for _, a := range of {
			mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: a.Name, Labels: a.Labels}}
			for name, value := range a.Claims {
				claim := clusterv1.ManagedClusterClaim{Name: name, Value: value}
				mc.Status.ClusterClaims = append(mc.Status.ClusterClaims, claim)
			}
			ranked = append(ranked, scheduling.Ranked{View: scheduling.NewView(mc), Total: a.Total, Avoid: a.Avoid})
		}
	}
	slices.SortFunc(ranked, scheduling.Compare)
	var chosen []string
	for _, r := range c.Choose(ranked).Chosen {
		chosen = append(chosen, r.Name)
	}
	return chosen
}
