package scheduling

import "cmp"

// Ranked is a candidate with what decides its rank.
type Ranked struct {
	*View
	// Total is the weighted sum of its scores.
	Total int64
	// Avoid is that others are to be chosen before it.
	Avoid bool
}

// Compare orders candidates by rank: first those that are not to be avoided,
// then by score, the best first, and then by name.
func Compare(a, b Ranked) int {
	if a.Avoid != b.Avoid {
		if a.Avoid {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name))
}

// Choice is where the cut fell.
type Choice struct {
	// Chosen are the chosen clusters, the best first.
	Chosen []Ranked
	// refused tells of clusters that are not chosen though there was room: why.
	refused map[string]string
	// passed are clusters that others of a lower rank were preferred to.
	passed map[string]bool
}

// Choose takes as many of the candidates as the placement asks for: the best of
// them, or those that spread as it wants. They have to be sorted by Compare.
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

// Spreads tells whether the placement chooses so as to spread over the values of
// labels or claims. Then all candidates decide on who is chosen, not only the
// best: a choice by rank alone is not enough.
func (c *Compiled) Spreads() bool {
	_, limited := c.NumberOfClusters()
	return limited && len(c.placement.Spec.SpreadPolicy.SpreadConstraints) > 0
}
