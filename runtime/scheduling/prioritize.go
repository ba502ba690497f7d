package scheduling

import (
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
