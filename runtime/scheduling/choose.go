package scheduling

import "cmp"

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
