package scheduling

import (
	"time"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

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
