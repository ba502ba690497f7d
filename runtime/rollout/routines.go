package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

// routine goes over clusters and decides.
type routine struct {
	settings
	now time.Time
	// existing are the clusters that have the change, in the order of their
	// names.
	existing []ClusterStatus
}

func (r routine) decide(f fleet) Result {
	first, rest := f.divide(r.mandatory)
	total := f.size()
	if r.strategy == clusterv1alpha1.RolloutTypeAll {
		// One step for all of them, whatever fails.
		return r.perCluster(rest, total, total)
	}
	if len(first) > 0 {
		// As upstream, this sees the clusters of the other groups, too: any of
		// them that is busy or timed out also keeps the rest waiting.
		result := r.perGroup(first, threshold{})
		if len(result.ToRollout) > 0 || len(result.TimedOut) > 0 {
			return result
		}
	}
	if r.strategy == clusterv1alpha1.RolloutTypeProgressivePerGroup {
		return r.perGroup(rest, r.maxFailures)
	}
	size := len(clustersOf(rest))
	return r.perCluster(rest, r.maxConcurrency.of(size, size), r.maxFailures.of(total, 0))
}

// perCluster keeps size clusters under way. Clusters that have the change come
// before those that do not.
func (r routine) perCluster(groups []Group, size, maxFailures int) (result Result) {
	have := sets.New[string]()
	failures := 0
	for _, s := range r.existing {
		have.Insert(s.Cluster)
		if !result.MaxFailureBreach || s.Status != ToApply {
			s = r.examine(&result, s)
		}
		if s.failed() {
			failures++
			result.MaxFailureBreach = failures > maxFailures
		}
		// Upstream does not look at the rest once the limit is reached, not even
		// for deadlines that have passed.
		if len(result.ToRollout) >= size {
			return result
		}
	}
	if result.MaxFailureBreach {
		return result
	}
	for _, c := range clustersOf(groups) {
		if have.Has(c) {
			continue
		}
		result.ToRollout = append(result.ToRollout, ClusterStatus{Cluster: c, Status: ToApply})
		if len(result.ToRollout) >= size {
			break
		}
	}
	return result
}

// perGroup starts the clusters of one group after the other, all of a group at
// once. A group holds up those after it while clusters are under way, not
// counting the failed ones, or when more than maxFailures of it failed.
//
// Two oddities are upstream's. Clusters that timed out are subtracted, too,
// although they are not under way, so each of them lets the next group overtake
// one unfinished cluster. And while failures are subtracted group by group, those
// under way are counted over all groups: a failed cluster holds up every group
// between the first and its own until it times out.
func (r routine) perGroup(groups []Group, maxFailures threshold) (result Result) {
	statuses := map[string]ClusterStatus{}
	for _, s := range r.existing {
		// Those that have yet to take it in come again with their group.
		if s.Status != ToApply {
			statuses[s.Cluster] = r.examine(&result, s)
		}
	}
	failures := 0
	for _, g := range groups {
		ofGroup, limit := 0, maxFailures.of(len(g.Clusters), 0)
		for _, c := range g.Clusters {
			s, ok := statuses[c]
			switch {
			case !ok:
				result.ToRollout = append(result.ToRollout, ClusterStatus{Cluster: c, Status: ToApply})
			case s.failed():
				ofGroup++
			}
		}
		failures += ofGroup
		result.MaxFailureBreach = ofGroup > limit
		if len(result.ToRollout)-failures > 0 || result.MaxFailureBreach {
			break
		}
	}
	return result
}

// examine finds out whether a cluster is under way or has timed out, adds it to
// the result accordingly, and returns its status by now.
func (r routine) examine(result *Result, s ClusterStatus) ClusterStatus {
	since := s.Since
	if since.IsZero() {
		since = r.now
	}
	switch s.Status {
	case ToApply:
		result.ToRollout = append(result.ToRollout, s)
	case TimeOut, Skip:
	case Succeeded:
		if until := since.Add(r.minSuccessTime); r.now.Before(until) {
			s.RecheckAt = until
			result.ToRollout = append(result.ToRollout, s)
		}
	default: // Progressing and Failed; nothing is known of others but that they are not done
		if r.limited {
			s.RecheckAt = since.Add(r.deadline)
		}
		if r.limited && !r.now.Before(s.RecheckAt) {
			s.Status = TimeOut
			result.TimedOut = append(result.TimedOut, s)
			return s
		}
		result.ToRollout = append(result.ToRollout, s)
	}
	return s
}

func (s ClusterStatus) failed() bool { return s.Status == Failed || s.Status == TimeOut }
