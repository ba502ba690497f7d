package scheduling

import (
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// Prioritizer scores clusters from -100 to 100. A cluster that it leaves out
// gets nothing from it.
type Prioritizer interface {
	Name() string
	// Score returns the scores and, when one of them expires, how long they hold.
	Score(in Input, clusters []*clusterv1.ManagedCluster) (scores map[string]int64, holds time.Duration, o outcome)
}

const (
	maxScore = 100
	minScore = -100
)

type weighted struct {
	prioritizer Prioritizer
	weight      int32
}

// prioritize scores the clusters and notes what each prioritizer gave.
func prioritize(in Input, clusters []*clusterv1.ManagedCluster, result *Result) outcome {
	prioritizers, err := prioritizersOf(in.Placement.Spec.PrioritizerPolicy)
	if err != nil {
		return outcome{code: misconfigured, message: err.Error()}
	}
	result.Total = make(map[string]int64, len(clusters))
	var problem outcome
	for _, p := range prioritizers {
		scores, holds, o := p.prioritizer.Score(in, clusters)
		result.RequeueAfter = earliest(result.RequeueAfter, holds)
		if o.code != success && problem.code == success {
			problem = o
			problem.plugin = p.prioritizer.Name()
		}
		result.Scores = append(result.Scores, PrioritizerResult{Name: p.prioritizer.Name(), Weight: p.weight, Scores: scores})
		for name, score := range scores {
			result.Total[name] += score * int64(p.weight)
		}
	}
	return problem
}

// prioritizersOf reads a policy: in the mode Additive the defaults and what it
// configures, in the mode Exact only the latter. A weight of 0 turns one off.
func prioritizersOf(policy clusterv1beta1.PrioritizerPolicy) ([]weighted, error) {
	var out []weighted
	switch policy.Mode {
	case "", clusterv1beta1.PrioritizerPolicyModeAdditive:
		out = []weighted{{balance{}, 1}, {steady{}, 1}}
	case clusterv1beta1.PrioritizerPolicyModeExact:
	default:
		return nil, fmt.Errorf("incorrect prioritizer policy mode: %s", policy.Mode)
	}
	for _, c := range policy.Configurations {
		p, err := prioritizerOf(c.ScoreCoordinate)
		if err != nil {
			return nil, err
		}
		weight := int32(1)
		if c.Weight != nil {
			weight = *c.Weight
		}
		at := slices.IndexFunc(out, func(w weighted) bool { return w.prioritizer.Name() == p.Name() })
		if at < 0 {
			out = append(out, weighted{p, weight})
		} else {
			out[at].weight = weight
		}
	}
	return slices.DeleteFunc(out, func(w weighted) bool { return w.weight == 0 }), nil
}

func prioritizerOf(c *clusterv1beta1.ScoreCoordinate) (Prioritizer, error) {
	switch {
	case c == nil:
		return nil, fmt.Errorf("scoreCoordinate field is required")
	case c.Type == "" || c.Type == clusterv1beta1.ScoreCoordinateTypeBuiltIn:
		switch c.BuiltIn {
		case "Balance":
			return balance{}, nil
		case "Steady":
			return steady{}, nil
		case "ResourceAllocatableCPU":
			return allocatable{clusterv1.ResourceCPU}, nil
		case "ResourceAllocatableMemory":
			return allocatable{clusterv1.ResourceMemory}, nil
		}
		return nil, fmt.Errorf("incorrect builtin prioritizer: %s", c.BuiltIn)
	case c.AddOn == nil:
		return nil, fmt.Errorf("addOn should not be empty")
	}
	return addOn{*c.AddOn}, nil
}

// balance prefers clusters that few other placements have chosen.
type balance struct{}

func (balance) Name() string { return "Balance" }

func (balance) Score(in Input, clusters []*clusterv1.ManagedCluster) (map[string]int64, time.Duration, outcome) {
	most := 0
	for _, n := range in.Elsewhere {
		most = max(most, n)
	}
	scores := make(map[string]int64, len(clusters))
	for _, c := range clusters {
		scores[c.Name] = maxScore
		if n := in.Elsewhere[c.Name]; n > 0 {
			// Cut off first, doubled then: the scores are even.
			scores[c.Name] = 2 * int64(maxScore*(0.5-float64(n)/float64(most)))
		}
	}
	return scores, 0, outcome{}
}

// steady prefers clusters that are chosen already.
type steady struct{}

func (steady) Name() string { return "Steady" }

func (steady) Score(in Input, clusters []*clusterv1.ManagedCluster) (map[string]int64, time.Duration, outcome) {
	scores := make(map[string]int64, len(clusters))
	for _, c := range clusters {
		scores[c.Name] = 0
		if in.Selected[c.Name] {
			scores[c.Name] = maxScore
		}
	}
	return scores, 0, outcome{}
}

// allocatable prefers clusters with much of a resource left.
type allocatable struct{ resource clusterv1.ResourceName }

func (a allocatable) Name() string {
	if a.resource == clusterv1.ResourceCPU {
		return "ResourceAllocatableCPU"
	}
	return "ResourceAllocatableMemory"
}

func (a allocatable) Score(_ Input, clusters []*clusterv1.ManagedCluster) (map[string]int64, time.Duration, outcome) {
	free := map[string]float64{}
	var least, most float64
	for _, c := range clusters {
		q, ok := c.Status.Allocatable[a.resource]
		if _, hasCapacity := c.Status.Capacity[a.resource]; !ok || !hasCapacity {
			continue
		}
		v := q.AsApproximateFloat64()
		if len(free) == 0 {
			least, most = v, v
		}
		least, most = min(least, v), max(most, v)
		free[c.Name] = v
	}
	scores := make(map[string]int64, len(free))
	for name, v := range free {
		scores[name] = maxScore
		if most > least {
			scores[name] = int64(((v-least)/(most-least) - 0.5) * 2 * maxScore)
		}
	}
	return scores, 0, outcome{}
}

// addOn takes the scores that an add-on publishes.
type addOn struct{ score clusterv1beta1.AddOnScore }

func (a addOn) Name() string { return "AddOn/" + a.score.ResourceName + "/" + a.score.ScoreName }

func (a addOn) Score(in Input, clusters []*clusterv1.ManagedCluster) (map[string]int64, time.Duration, outcome) {
	scores := make(map[string]int64, len(clusters))
	var holds time.Duration
	var expired []string
	for _, c := range clusters {
		scores[c.Name] = 0
		if in.Score == nil {
			continue
		}
		published := in.Score(c.Name, a.score.ResourceName)
		if published == nil {
			continue
		}
		if until := published.Status.ValidUntil; until != nil {
			if in.Now.After(until.Time) {
				expired = append(expired, c.Name+"/"+a.score.ResourceName)
				continue
			}
			// The score still holds at that moment, and no longer after it.
			holds = earliest(holds, until.Sub(in.Now)+1)
		}
		for _, item := range published.Status.Scores {
			if item.Name == a.score.ScoreName {
				scores[c.Name] = min(maxScore, max(minScore, int64(item.Value)))
			}
		}
	}
	if len(expired) > 0 {
		return scores, holds, outcome{code: warning, message: fmt.Sprintf("AddOnPlacementScores %s expired", strings.Join(expired, " "))}
	}
	return scores, holds, outcome{}
}
