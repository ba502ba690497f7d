package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// Whatever the clusters do, a rollout with a deadline comes to an end: everybody
// has the change and is done with it, or too many failed.
func TestRolloutsOfRandomFleets(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("the seed is %d", seed)
	complete, breached := 0, 0
	for i := range int64(3000) {
		s := newSimulation(t, seed+i)
		s.log = append(s.log, fmt.Sprintf("the seed is %d", seed+i))
		for steps := 0; ; steps++ {
			if steps > 10000 {
				s.fail("no end after %d steps", steps)
			}
			given := len(s.given)
			s.step()
			// A step that hands something out may be followed by another at once.
			if len(s.given) == given && !s.wait() {
				break
			}
		}
		if s.end() {
			complete++
		} else {
			breached++
		}
	}
	if complete == 0 || breached == 0 {
		t.Errorf("%d rollouts were complete and %d cut short: the simulation is too tame", complete, breached)
	}
}

// end says how a rollout ended: complete, or cut short by failures.
func (s *simulation) end() (complete bool) {
	failures, mandatory := 0, slices.ContainsFunc(s.groups, s.mandatory)
	for c := range s.given {
		x := s.status(c)
		switch {
		case s.failed(x):
			failures++
		case x.Status != rollout.Succeeded || s.underWay(x):
			s.fail("at the end %s is %s", c, x.Status)
		}
	}
	if len(s.given) == len(s.fates) {
		return true
	}
	if failures == 0 {
		s.fail("%d of %d clusters have the change and none failed", len(s.given), len(s.fates))
	}
	// With mandatory groups, any cluster that timed out is the end.
	if !s.last.MaxFailureBreach && (!mandatory || len(s.last.TimedOut) == 0) {
		s.fail("%d of %d clusters have the change, and there is no breach", len(s.given), len(s.fates))
	}
	return false
}

// Clusters that leave while a rollout goes on are reported, and nobody else.
func TestClustersThatLeaveAreReported(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("the seed is %d", seed)
	for i := range int64(500) {
		s := newSimulation(t, seed+i)
		s.log = append(s.log, fmt.Sprintf("the seed is %d", seed+i))
		for range 1 + s.random.Intn(10) {
			s.step()
			s.wait()
		}
		var left []string
		for g := range s.groups {
			s.groups[g].Clusters = slices.DeleteFunc(s.groups[g].Clusters, func(c string) bool {
				leaves := s.random.Intn(2) == 0
				if _, has := s.given[c]; has && leaves {
					left = append(left, c)
				}
				return leaves
			})
		}
		result, err := rollout.Decide(s.strategy, s.groups, s.existing(), s.now)
		if err != nil {
			t.Fatal(err)
		}
		var reported []string
		for _, x := range result.Removed {
			reported = append(reported, x.Cluster)
		}
		slices.Sort(left)
		if !slices.Equal(left, reported) {
			s.fail("%v are reported as removed, want %v", reported, left)
		}
		for _, x := range slices.Concat(result.ToRollout, result.TimedOut) {
			if slices.Contains(left, x.Cluster) {
				s.fail("%s left and is still rolled out", x.Cluster)
			}
		}
	}
}
