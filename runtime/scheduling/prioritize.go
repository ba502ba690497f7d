package scheduling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

const (
	maxScore = 100
	minScore = -100
)

// PrioritizerKind is what a prioritizer scores by.
type PrioritizerKind int

// The kinds of prioritizers.
const (
	// Balance prefers clusters that few other placements have chosen.
	Balance PrioritizerKind = iota
	// Steady prefers clusters that are already chosen.
	Steady
	// Allocatable prefers clusters with much of a resource left.
	Allocatable
	// AddOn takes the scores that an add-on publishes.
	AddOn
)

// Prioritizer scores clusters from -100 to 100. A cluster without a score
// counts as 0.
type Prioritizer struct {
	// Name is the name in the API, or "AddOn/<resource>/<score>" for an
	// add-on's score.
	Name string
	// Weight is the factor of the scores, never 0.
	Weight int32
	// Kind is what it scores by.
	Kind PrioritizerKind
	// Resource is for the kind Allocatable.
	Resource clusterv1.ResourceName
	// AddOn is for the kind AddOn.
	AddOn clusterv1beta1.AddOnScore
}

// prioritizersOf reads a policy: in the mode Additive the defaults and the
// configured ones, in the mode Exact only the configured ones. A weight of 0
// disables one.
func prioritizersOf(policy clusterv1beta1.PrioritizerPolicy) ([]Prioritizer, *Problem) {
	var out []Prioritizer
	switch policy.Mode {
	case "", clusterv1beta1.PrioritizerPolicyModeAdditive:
		out = []Prioritizer{{Name: "Balance", Weight: 1, Kind: Balance}, {Name: "Steady", Weight: 1, Kind: Steady}}
	case clusterv1beta1.PrioritizerPolicyModeExact:
	default:
		return nil, &Problem{Message: fmt.Sprintf("incorrect prioritizer policy mode: %s", policy.Mode)}
	}
	for _, c := range policy.Configurations {
		p, problem := prioritizerOf(c.ScoreCoordinate)
		if problem != nil {
			return nil, problem
		}
		if p.Weight = 1; c.Weight != nil {
			p.Weight = *c.Weight
		}
		at := slices.IndexFunc(out, func(o Prioritizer) bool { return o.Name == p.Name })
		if at < 0 {
			out = append(out, p)
		} else {
			out[at].Weight = p.Weight
		}
	}
	return slices.DeleteFunc(out, func(p Prioritizer) bool { return p.Weight == 0 }), nil
}

func prioritizerOf(c *clusterv1beta1.ScoreCoordinate) (Prioritizer, *Problem) {
	switch {
	case c == nil:
		return Prioritizer{}, &Problem{Message: "scoreCoordinate field is required"}
	case c.Type == "" || c.Type == clusterv1beta1.ScoreCoordinateTypeBuiltIn:
		switch c.BuiltIn {
		case "Balance":
			return Prioritizer{Name: c.BuiltIn, Kind: Balance}, nil
		case "Steady":
			return Prioritizer{Name: c.BuiltIn, Kind: Steady}, nil
		case "ResourceAllocatableCPU":
			return Prioritizer{Name: c.BuiltIn, Kind: Allocatable, Resource: clusterv1.ResourceCPU}, nil
		case "ResourceAllocatableMemory":
			return Prioritizer{Name: c.BuiltIn, Kind: Allocatable, Resource: clusterv1.ResourceMemory}, nil
		}
		return Prioritizer{}, &Problem{Message: fmt.Sprintf("incorrect builtin prioritizer: %s", c.BuiltIn)}
	case c.AddOn == nil:
		return Prioritizer{}, &Problem{Message: "addOn should not be empty"}
	}
	return Prioritizer{Name: "AddOn/" + c.AddOn.ResourceName + "/" + c.AddOn.ScoreName, Kind: AddOn, AddOn: *c.AddOn}, nil
}

// prioritize scores the candidates and records what each prioritizer gave. Its
// warning, that scores have expired, does not prevent a choice.
func (c *Compiled) prioritize(in Input, candidates []candidate, result *Result) *Problem {
	result.Total = make(map[string]int64, len(candidates))
	for _, x := range candidates {
		result.Total[x.Name] = 0
	}
	var warning *Problem
	for _, p := range c.prioritizers {
		scores, holds, expired := p.scores(in, candidates)
		result.RequeueAfter = earliest(result.RequeueAfter, holds)
		if len(expired) > 0 && warning == nil {
			warning = &Problem{Plugin: p.Name, Message: ExpiredMessage(expired)}
		}
		result.Scores = append(result.Scores, PrioritizerResult{Name: p.Name, Weight: p.Weight, Scores: scores})
		for name, score := range scores {
			result.Total[name] += score * int64(p.Weight)
		}
	}
	return warning
}

// scores are a prioritizer's scores for the candidates, how long they are
// valid, and which AddOnPlacementScores have expired.
func (p *Prioritizer) scores(in Input, candidates []candidate) (scores map[string]int64, holds time.Duration, expired []string) {
	scores = make(map[string]int64, len(candidates))
	switch p.Kind {
	case Balance:
		most := 0
		for _, n := range in.Elsewhere {
			most = max(most, n)
		}
		for _, c := range candidates {
			scores[c.Name] = BalanceScore(in.Elsewhere[c.Name], most)
		}
	case Steady:
		for _, c := range candidates {
			scores[c.Name] = SteadyScore(in.Selected[c.Name])
		}
	case Allocatable:
		p.allocatable(candidates, scores)
	case AddOn:
		for _, c := range candidates {
			var published *clusterv1alpha1.AddOnPlacementScore
			if in.Score != nil {
				published = in.Score(c.Name, p.AddOn.ResourceName)
			}
			s := PublishedScore(published, p.AddOn.ScoreName, in.Now)
			scores[c.Name] = s.Value
			if s.Expired {
				expired = append(expired, c.Name+"/"+p.AddOn.ResourceName)
			} else if !s.Until.IsZero() {
				holds = earliest(holds, within(s.Until, in.Now))
			}
		}
	}
	return scores, holds, expired
}

func (p *Prioritizer) allocatable(candidates []candidate, scores map[string]int64) {
	free := make(map[string]float64, len(candidates))
	var least, most float64
	for _, c := range candidates {
		v, ok := Free(c.ManagedCluster, p.Resource)
		if !ok {
			continue
		}
		if len(free) == 0 {
			least, most = v, v
		}
		least, most = min(least, v), max(most, v)
		free[c.Name] = v
	}
	for name, v := range free {
		scores[name] = AllocatableScore(v, least, most)
	}
}

// ExpiredMessage is the warning about AddOnPlacementScores, each given as
// namespace/name, that have expired.
func ExpiredMessage(expired []string) string {
	return fmt.Sprintf("AddOnPlacementScores %s expired", strings.Join(expired, " "))
}

// Ranked is a candidate with everything that decides its rank.
type Ranked struct {
	*View
	// Total is the weighted sum of its scores.
	Total int64
	// Avoid is whether other candidates are preferred, whatever their scores.
	Avoid bool
}

// Compare orders candidates by rank: first those without Avoid, then by
// descending score, then by name.
func Compare(a, b Ranked) int {
	if a.Avoid != b.Avoid {
		if a.Avoid {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name))
}

// Choice is the result of Choose.
type Choice struct {
	// Chosen are the chosen clusters in order of rank.
	Chosen []Ranked
	// refused explains, for clusters that were not chosen although clusters are
	// missing, why they were not.
	refused map[string]string
	// passed are clusters that were not chosen although clusters of a lower
	// rank were.
	passed map[string]bool
}

// Choose takes as many of the candidates as the placement asks for: the best,
// or the best that satisfy its spread constraints. The candidates must be
// sorted by Compare.
func (c *Compiled) Choose(ranked []Ranked) Choice {
	n, limited := c.NumberOfClusters()
	if !limited || len(ranked) == 0 {
		return Choice{Chosen: ranked}
	}
	if c.Spreads() {
		return c.spread(ranked, n)
	}
	return Choice{Chosen: ranked[:min(len(ranked), n)]}
}

// Spreads reports whether the placement spreads its choice over the values of
// labels or claims. Then the choice depends on all candidates, not only on the
// best.
func (c *Compiled) Spreads() bool {
	_, limited := c.NumberOfClusters()
	return limited && len(c.placement.Spec.SpreadPolicy.SpreadConstraints) > 0
}

// BalanceScore is the score of a cluster that is in count decisions of other
// placements, where most is the highest count of any cluster.
func BalanceScore(count, most int) int64 {
	if count == 0 {
		return maxScore
	}
	// The fraction is cut off before doubling, so scores are even.
	return 2 * int64(maxScore*(0.5-float64(count)/float64(most)))
}

// SteadyScore is the score of a cluster that is, or is not, in the placement's
// present decisions.
func SteadyScore(selected bool) int64 {
	if selected {
		return maxScore
	}
	return 0
}

// Free is the share of a resource that a cluster has left, if it reports both
// the allocatable amount and the capacity. Without it, the cluster gets no
// score.
func Free(c *clusterv1.ManagedCluster, resource clusterv1.ResourceName) (float64, bool) {
	q, ok := c.Status.Allocatable[resource]
	if _, hasCapacity := c.Status.Capacity[resource]; !ok || !hasCapacity {
		return 0, false
	}
	return q.AsApproximateFloat64(), true
}

// AllocatableScore is the score of a cluster with this free share, when the
// candidates have shares between least and most.
func AllocatableScore(free, least, most float64) int64 {
	if most <= least {
		return maxScore
	}
	return int64(((free-least)/(most-least) - 0.5) * 2 * maxScore)
}

// Published is a score that an add-on publishes.
type Published struct {
	// Value is the score, 0 when there is none.
	Value int64
	// Expired is whether the scores have expired without being renewed.
	Expired bool
	// Until is when they expire; zero means never. It is only set for scores
	// that have not expired.
	Until time.Time
}

// PublishedScore reads the score called name from an AddOnPlacementScore, which
// may be nil, at a time.
func PublishedScore(published *clusterv1alpha1.AddOnPlacementScore, name string, now time.Time) Published {
	var s Published
	if published == nil {
		return s
	}
	if until := published.Status.ValidUntil; until != nil {
		if now.After(until.Time) {
			return Published{Expired: true}
		}
		// The score is still valid at that very moment.
		s.Until = until.Add(1)
	}
	for _, item := range published.Status.Scores {
		if item.Name == name {
			s.Value = min(maxScore, max(minScore, int64(item.Value)))
		}
	}
	return s
}

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
