// Package rollout decides which clusters get a change next. It is one pure
// function over a snapshot: the strategy, the decision groups of a placement, the
// status of each cluster that has the change already, and the time. The caller
// reads the snapshot, writes to the clusters in the result, and calls it again when
// something has changed or RecheckAfter has passed. It imports the API's types only.
//
// The arithmetic is that of Open Cluster Management's rollouts, quirks included,
// so that a strategy means the same on either hub:
//
//   - Whatever is under way takes a place in maxConcurrency: clusters that have
//     the change but have not taken it in yet, that make progress, that have
//     failed and not timed out, and those that succeeded less than minSuccessTime
//     ago.
//   - A cluster that failed counts against maxFailures at once, not only when its
//     progressDeadline has passed. More than maxFailures stop all further
//     hand-outs; what is under way goes on.
//   - maxFailures and maxConcurrency that are not within 1 and the number of
//     clusters mean the same as none at all.
//   - Mandatory groups come first and tolerate no failure.
package rollout

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

// Status is how far a change has come in one cluster.
type Status string

const (
	// ToApply says that the cluster has not taken in the change yet.
	ToApply Status = "ToApply"
	// Progressing says that the cluster has the change and is busy with it.
	Progressing Status = "Progressing"
	// Succeeded says that the cluster is done with the change.
	Succeeded Status = "Succeeded"
	// Failed says that the change does harm there. The cluster may still recover.
	Failed Status = "Failed"
	// TimeOut says that the cluster was Progressing or Failed for too long.
	TimeOut Status = "TimeOut"
	// Skip leaves the cluster out of the rollout.
	Skip Status = "Skip"
)

// Group is a decision group of a placement.
type Group struct {
	// Index is the group's place, counted from 0. Groups go in its order.
	Index int32
	// Name may be empty, and several groups may share one.
	Name string
	// Clusters are the names of the selected clusters, in any order.
	Clusters []string
}

// ClusterStatus is how far a change has come in a cluster.
type ClusterStatus struct {
	// Cluster is the cluster's name.
	Cluster string
	// Status is how far it is.
	Status Status
	// Since is when it got there. The zero time stands for an unknown one, which
	// counts as now in every decision: such a cluster never times out, and never
	// has been successful for long enough if a minSuccessTime is set.
	Since time.Time
	// RecheckAt is set in results only: when the cluster's time is up, which is
	// the end of its deadline or of its minSuccessTime. Zero means never.
	RecheckAt time.Time
}

// Result is what to do now.
type Result struct {
	// ToRollout are the clusters under way. Those of them with the status ToApply
	// are to get the change, unless they have it already.
	ToRollout []ClusterStatus
	// TimedOut are the clusters whose deadline has passed.
	TimedOut []ClusterStatus
	// Removed are the clusters that are in no group any more.
	Removed []ClusterStatus
	// MaxFailureBreach is that the rollout stopped because too many
	// clusters failed.
	MaxFailureBreach bool
	// RecheckAfter is how long it takes until time alone changes the result; 0
	// means that it does not.
	RecheckAfter time.Duration
}

// Decide says which of the clusters in groups get a change. existing is the status
// of those that have it already. Decide changes neither of them, and its result
// depends on nothing else.
//
// Group indexes are expected to run from 0 without a gap. As upstream, clusters
// of a group whose index is not below the number of groups get nothing, unless
// the group is mandatory. They do not count as removed, though: a gap is a
// placement that is being rewritten, and no reason to take workloads away.
func Decide(strategy clusterv1alpha1.RolloutStrategy, groups []Group, existing []ClusterStatus, now time.Time) (Result, error) {
	p, err := read(strategy)
	if err != nil {
		return Result{}, err
	}
	f := newFleet(groups)
	r := routine{now: now, settings: p}
	var removed []ClusterStatus
	for _, s := range existing {
		s.RecheckAt = time.Time{}
		switch {
		case s.Cluster == "":
		case f.has(s.Cluster):
			r.existing = append(r.existing, s)
		default:
			removed = append(removed, s)
		}
	}
	byName := func(a, b ClusterStatus) int { return strings.Compare(a.Cluster, b.Cluster) }
	slices.SortStableFunc(r.existing, byName)
	slices.SortStableFunc(removed, byName)

	result := r.decide(f)
	result.Removed = removed
	for _, s := range result.ToRollout {
		// Those in the list that have such a time have it ahead.
		if wait := s.RecheckAt.Sub(now); !s.RecheckAt.IsZero() && (result.RecheckAfter == 0 || wait < result.RecheckAfter) {
			result.RecheckAfter = wait
		}
	}
	return result, nil
}

// Validate says what is wrong with a strategy, as Decide would.
func Validate(strategy clusterv1alpha1.RolloutStrategy) error {
	_, err := read(strategy)
	return err
}

// Deadline is after how long a cluster that is not done has timed out; limited is
// false where it never has.
func Deadline(strategy clusterv1alpha1.RolloutStrategy) (deadline time.Duration, limited bool, err error) {
	s, err := read(strategy)
	return s.deadline, s.limited, err
}

// Tolerated is how many clusters of a placement that has selected total may fail until
// no further one gets the change. A strategy that counts otherwise tolerates all.
func Tolerated(strategy clusterv1alpha1.RolloutStrategy, total int) int {
	s, err := read(strategy)
	if err != nil || s.strategy != clusterv1alpha1.RolloutTypeProgressive {
		return total
	}
	return s.maxFailures.of(total, 0)
}

// settings are a strategy's, parsed.
type settings struct {
	strategy       clusterv1alpha1.RolloutType
	mandatory      []clusterv1alpha1.MandatoryDecisionGroup
	maxConcurrency threshold
	maxFailures    threshold
	minSuccessTime time.Duration
	// deadline is only meant when limited is set.
	deadline time.Duration
	limited  bool
}

// read parses a strategy. Settings of other types than the chosen one are not
// looked at.
func read(strategy clusterv1alpha1.RolloutStrategy) (settings, error) {
	s := settings{strategy: strategy.Type}
	var config clusterv1alpha1.RolloutConfig
	var err error
	switch strategy.Type {
	case clusterv1alpha1.RolloutTypeAll:
		if a := strategy.All; a != nil {
			// With every cluster started at once, the rest holds nothing back.
			config.ProgressDeadline = a.ProgressDeadline
		}
	case clusterv1alpha1.RolloutTypeProgressive:
		if p := strategy.Progressive; p != nil {
			config, s.mandatory = p.RolloutConfig, p.MandatoryDecisionGroups.MandatoryDecisionGroups
			if s.maxConcurrency, err = readThreshold("maxConcurrency", p.MaxConcurrency); err != nil {
				return s, err
			}
		}
	case clusterv1alpha1.RolloutTypeProgressivePerGroup:
		if p := strategy.ProgressivePerGroup; p != nil {
			config, s.mandatory = p.RolloutConfig, p.MandatoryDecisionGroups.MandatoryDecisionGroups
		}
	default:
		return s, fmt.Errorf("incorrect rollout strategy type %q: choose All, Progressive or ProgressivePerGroup", strategy.Type)
	}
	if s.maxFailures, err = readThreshold("maxFailures", config.MaxFailures); err != nil {
		return s, err
	}
	if s.minSuccessTime, err = config.SuccessTime(); err != nil {
		return s, err
	}
	if s.deadline, s.limited, err = config.Deadline(); err != nil {
		return s, err
	}
	if s.limited && s.deadline < 0 {
		return s, fmt.Errorf("reading progressDeadline %q of the rollout strategy: it is negative; write a duration such as 10m, or None", config.ProgressDeadline)
	}
	return s, nil
}

// threshold is a number of clusters, or a share of them.
type threshold struct {
	number  int
	percent float64
	share   bool
}

// readThreshold reads a number or a percentage, which may have a fraction. A
// number that is written as text is none, as upstream.
func readThreshold(field string, v intstr.IntOrString) (threshold, error) {
	if v.Type == intstr.Int {
		return threshold{number: v.IntValue()}, nil
	}
	text, isShare := strings.CutSuffix(v.StrVal, "%")
	percent, err := strconv.ParseFloat(text, 64)
	if !isShare || err != nil || math.IsNaN(percent) || math.IsInf(percent, 0) {
		return threshold{}, fmt.Errorf("reading %s %q of the rollout strategy: it is neither a number nor a percentage; write 3 or 25%%", field, v.StrVal)
	}
	return threshold{percent: percent, share: true}, nil
}

// of is the threshold for a number of clusters. Shares are rounded up, and
// calculated as upstream does: 28% of 25 are a little more than 7 then, and make
// 8. What is not within 1 and total, a maxFailures of 0 as much as one of 10 for 5
// clusters, means otherwise.
func (t threshold) of(total, otherwise int) int {
	n := t.number
	if t.share {
		n = int(math.Ceil(t.percent / 100 * float64(total)))
	}
	if n <= 0 || n > total {
		return otherwise
	}
	return n
}

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
