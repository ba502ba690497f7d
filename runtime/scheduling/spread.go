package scheduling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// spread chooses n of the ranked candidates, one after the other: each time the
// best of those that satisfy every strict constraint and, among these, satisfy
// the most important of the lenient ones that can be satisfied. So the choice
// is spread at each step, and the same candidates always give the same choice.
// It ends early when the strict constraints admit no other candidate.
func (c *Compiled) spread(ranked []Ranked, n int) Choice {
	terms := make([]*spreadTerm, 0, len(c.placement.Spec.SpreadPolicy.SpreadConstraints))
	for _, constraint := range c.placement.Spec.SpreadPolicy.SpreadConstraints {
		terms = append(terms, newSpreadTerm(constraint))
	}
	queues := byTopology(terms, ranked)
	var choice Choice
	for len(choice.Chosen) < n {
		best := nextQueue(terms, queues)
		if best == nil {
			break
		}
		for i, t := range terms {
			t.counts[best.values[i]]++
		}
		choice.Chosen = append(choice.Chosen, ranked[best.ranks[0]])
		best.taken = append(best.taken, best.ranks[0])
		best.ranks = best.ranks[1:]
	}
	choice.explain(terms, queues, ranked, len(choice.Chosen) < n)
	slices.SortFunc(choice.Chosen, Compare)
	return choice
}

// spreadTerm is a constraint, with the number of chosen clusters for each
// value.
type spreadTerm struct {
	clusterv1beta1.SpreadConstraintsTerm
	counts map[topologyValue]int
}

// topologyValue is the value of a topology key, which may be missing.
type topologyValue struct {
	value string
	found bool
}

func newSpreadTerm(constraint clusterv1beta1.SpreadConstraintsTerm) *spreadTerm {
	constraint.MaxSkew = max(1, constraint.MaxSkew)
	return &spreadTerm{constraint, map[topologyValue]int{}}
}

func (t *spreadTerm) strict() bool { return t.WhenUnsatisfiable == clusterv1beta1.DoNotSchedule }

func (t *spreadTerm) valueOf(v *View) topologyValue {
	values := v.Labels
	if t.TopologyKeyType == clusterv1beta1.TopologyKeyTypeClaim {
		values = v.Claims()
	}
	value, found := values[t.TopologyKey]
	return topologyValue{value, found}
}

// keeps reports whether one more cluster with a value satisfies the constraint.
// A cluster without a value never does.
func (t *spreadTerm) keeps(value topologyValue, least int) bool {
	return value.found && t.counts[value]+1-least <= int(t.MaxSkew)
}

// least is the smallest number of chosen clusters with any of the values.
func (t *spreadTerm) least() int {
	out := -1
	for value, n := range t.counts {
		if value.found && (out < 0 || n < out) {
			out = n
		}
	}
	return max(0, out)
}

func (t *spreadTerm) String() string {
	return fmt.Sprintf("%s %s (maxSkew %d)", strings.ToLower(string(t.TopologyKeyType)), t.TopologyKey, t.MaxSkew)
}

// queue is the candidates with the same values, by rank: only the first of them
// can be chosen next.
type queue struct {
	values []topologyValue
	ranks  []int // positions among the ranked; those that are left
	taken  []int
}

func byTopology(terms []*spreadTerm, ranked []Ranked) []*queue {
	var out []*queue
	byKey := map[string]*queue{}
	for rank, r := range ranked {
		values := make([]topologyValue, len(terms))
		key := &strings.Builder{}
		for i, t := range terms {
			values[i] = t.valueOf(r.View)
			t.counts[values[i]] = 0
			fmt.Fprintf(key, "%t%q", values[i].found, values[i].value)
		}
		q := byKey[key.String()]
		if q == nil {
			q = &queue{values: values}
			byKey[key.String()] = q
			out = append(out, q)
		}
		q.ranks = append(q.ranks, rank)
	}
	return out
}

// nextQueue is the queue whose first candidate is chosen next, or nil when none
// may be.
func nextQueue(terms []*spreadTerm, queues []*queue) *queue {
	least := make([]int, len(terms))
	for i, t := range terms {
		least[i] = t.least()
	}
	var best *queue
	var bestCost []int
	for _, q := range queues {
		if len(q.ranks) == 0 {
			continue
		}
		cost, allowed := costOf(terms, q, least)
		if !allowed {
			continue
		}
		if best == nil || cmp.Or(slices.Compare(cost, bestCost), cmp.Compare(q.ranks[0], best.ranks[0])) < 0 {
			best, bestCost = q, cost
		}
	}
	return best
}

// costOf reports which of the lenient constraints, the most important first,
// one more cluster of a queue violates, and whether the strict ones allow it.
func costOf(terms []*spreadTerm, q *queue, least []int) (cost []int, allowed bool) {
	cost = make([]int, len(terms))
	for i, t := range terms {
		if t.keeps(q.values[i], least[i]) {
			continue
		}
		if t.strict() {
			return nil, false
		}
		cost[i] = 1
	}
	return cost, true
}

// explain records why candidates were not chosen in spite of their rank.
func (c *Choice) explain(terms []*spreadTerm, queues []*queue, ranked []Ranked, short bool) {
	last := -1
	for _, q := range queues {
		if len(q.taken) > 0 {
			last = max(last, q.taken[len(q.taken)-1])
		}
	}
	c.passed, c.refused = map[string]bool{}, map[string]string{}
	for _, q := range queues {
		for _, rank := range q.ranks {
			if !short {
				if rank < last {
					c.passed[ranked[rank].Name] = true
				}
				continue
			}
			for i, t := range terms {
				if t.strict() && !t.keeps(q.values[i], t.least()) {
					c.refused[ranked[rank].Name] = refusal(t, q.values[i])
					break
				}
			}
		}
	}
}

func refusal(t *spreadTerm, value topologyValue) string {
	if !value.found {
		return fmt.Sprintf("no value to spread over %s", t)
	}
	return fmt.Sprintf("one more with the value %q would break the spread over %s", value.value, t)
}
