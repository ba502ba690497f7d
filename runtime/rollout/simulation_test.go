package rollout_test

import (
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// fate is what a change does to a simulated cluster.
type fate struct {
	ends  rollout.Status // Succeeded, Failed, or Progressing for one that hangs
	takes time.Duration  // until it has taken in the change
	works time.Duration  // from then until its end
}

// simulation rolls a change out over a fleet whose clusters succeed, fail and
// hang at random.
type simulation struct {
	*testing.T
	random   *rand.Rand
	strategy clusterv1alpha1.RolloutStrategy
	groups   []rollout.Group
	fates    map[string]fate
	given    map[string]time.Time // when a cluster was handed the change
	now      time.Time
	last     rollout.Result
	log      []string
}

func newSimulation(t *testing.T, seed int64) *simulation {
	s := &simulation{T: t, random: rand.New(rand.NewSource(seed)), fates: map[string]fate{}, given: map[string]time.Time{}, now: noon}
	trouble := s.random.Float64() * 0.5
	for index := range 1 + s.random.Intn(5) {
		g := rollout.Group{Index: int32(index), Name: []string{"", "canary", "prod"}[s.random.Intn(3)]}
		for range s.random.Intn(8) {
			name := fmt.Sprintf("c%03d", s.random.Intn(1000))
			if _, twice := s.fates[name]; twice {
				continue
			}
			g.Clusters = append(g.Clusters, name)
			f := fate{ends: rollout.Succeeded, takes: s.duration(60), works: s.duration(600)}
			if s.random.Float64() < trouble {
				f.ends = []rollout.Status{rollout.Failed, rollout.Progressing}[s.random.Intn(2)]
			}
			s.fates[name] = f
		}
		s.groups = append(s.groups, g)
	}
	config := clusterv1alpha1.RolloutConfig{
		MinSuccessTime:   []string{"", "0", "90s", "5m"}[s.random.Intn(4)],
		ProgressDeadline: []string{"0s", "4m", "15m"}[s.random.Intn(3)],
		MaxFailures:      s.threshold(),
	}
	var first clusterv1alpha1.MandatoryDecisionGroups
	for range s.random.Intn(3) {
		first.MandatoryDecisionGroups = append(first.MandatoryDecisionGroups, clusterv1alpha1.MandatoryDecisionGroup{
			GroupName: []string{"", "", "canary"}[s.random.Intn(3)], GroupIndex: int32(s.random.Intn(4))})
	}
	switch s.random.Intn(5) {
	case 0:
		s.strategy = clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeAll, All: &clusterv1alpha1.RolloutAll{RolloutConfig: config}}
	case 1, 2:
		s.strategy = clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressive, Progressive: &clusterv1alpha1.RolloutProgressive{RolloutConfig: config, MandatoryDecisionGroups: first, MaxConcurrency: s.threshold()}}
	default:
		s.strategy = clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressivePerGroup, ProgressivePerGroup: &clusterv1alpha1.RolloutProgressivePerGroup{RolloutConfig: config, MandatoryDecisionGroups: first}}
	}
	return s
}

func (s *simulation) duration(seconds int) time.Duration {
	return time.Duration(1+s.random.Intn(seconds)) * time.Second
}

func (s *simulation) threshold() intstr.IntOrString {
	if s.random.Intn(2) == 0 {
		return intstr.FromInt32(int32(s.random.Intn(6)))
	}
	return intstr.FromString(fmt.Sprintf("%d%%", s.random.Intn(101)))
}

func (s *simulation) config() clusterv1alpha1.RolloutConfig {
	switch s.strategy.Type {
	case clusterv1alpha1.RolloutTypeProgressive:
		return s.strategy.Progressive.RolloutConfig
	case clusterv1alpha1.RolloutTypeProgressivePerGroup:
		return s.strategy.ProgressivePerGroup.RolloutConfig
	}
	return clusterv1alpha1.RolloutConfig{ProgressDeadline: s.strategy.All.ProgressDeadline}
}

func (s *simulation) mandatory(g rollout.Group) bool {
	var list []clusterv1alpha1.MandatoryDecisionGroup
	if p := s.strategy.Progressive; p != nil {
		list = p.MandatoryDecisionGroups.MandatoryDecisionGroups
	}
	if p := s.strategy.ProgressivePerGroup; p != nil {
		list = p.MandatoryDecisionGroups.MandatoryDecisionGroups
	}
	return slices.ContainsFunc(list, func(m clusterv1alpha1.MandatoryDecisionGroup) bool {
		return m.GroupName != "" && m.GroupName == g.Name || m.GroupName == "" && m.GroupIndex == g.Index
	})
}

// status is how a cluster that was handed the change fares now.
func (s *simulation) status(cluster string) rollout.ClusterStatus {
	f, taken := s.fates[cluster], s.given[cluster].Add(s.fates[cluster].takes)
	switch end := taken.Add(f.works); {
	case s.now.Before(taken):
		return rollout.ClusterStatus{Cluster: cluster, Status: rollout.ToApply}
	case s.now.Before(end) || f.ends == rollout.Progressing:
		return rollout.ClusterStatus{Cluster: cluster, Status: rollout.Progressing, Since: taken}
	default:
		return rollout.ClusterStatus{Cluster: cluster, Status: f.ends, Since: end}
	}
}

// timedOut reports whether a cluster's deadline has passed.
func (s *simulation) timedOut(x rollout.ClusterStatus) bool {
	limit, limited, err := s.config().Deadline()
	if err != nil {
		s.Fatal(err)
	}
	return limited && (x.Status == rollout.Progressing || x.Status == rollout.Failed) && !s.now.Before(x.Since.Add(limit))
}

// underWay reports whether a cluster takes a place.
func (s *simulation) underWay(x rollout.ClusterStatus) bool {
	soak, err := s.config().SuccessTime()
	if err != nil {
		s.Fatal(err)
	}
	if x.Status == rollout.Succeeded {
		return s.now.Before(x.Since.Add(soak))
	}
	return !s.timedOut(x)
}

func (s *simulation) failed(x rollout.ClusterStatus) bool {
	return x.Status == rollout.Failed || s.timedOut(x)
}

// existing are the clusters that have the change, in random order.
func (s *simulation) existing() (out []rollout.ClusterStatus) {
	for c := range s.given {
		out = append(out, s.status(c))
	}
	s.random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// step decides once, checks what must hold, and hands the change out.
func (s *simulation) step() {
	before := s.existing()
	result, err := rollout.Decide(s.strategy, s.groups, before, s.now)
	if err != nil {
		s.Fatal(err)
	}
	s.last = result
	slices.Reverse(before)
	if again, err := rollout.Decide(s.strategy, s.groups, before, s.now); err != nil || !reflect.DeepEqual(again, result) {
		s.fail("the same input gave %s and then %s (%v)", render(result), render(again), err)
	}
	var fresh []string
	for _, x := range result.ToRollout {
		if _, has := s.given[x.Cluster]; !has {
			fresh = append(fresh, x.Cluster)
			s.given[x.Cluster] = s.now
		}
	}
	s.log = append(s.log, fmt.Sprintf("%s: %s, new %v", s.now.Sub(noon), render(result), fresh))
	if len(fresh) > 0 {
		s.checkBudget(fresh)
		s.checkFailures(fresh)
	}
	if s.strategy.Type != clusterv1alpha1.RolloutTypeAll {
		s.checkMandatory()
	}
}

// checkBudget: never more under way than maxConcurrency, the mandatory groups
// aside.
func (s *simulation) checkBudget(fresh []string) {
	if s.strategy.Type != clusterv1alpha1.RolloutTypeProgressive {
		return
	}
	total, under, own := 0, 0, false
	for _, g := range s.groups {
		if s.mandatory(g) {
			continue
		}
		total += len(g.Clusters)
		for _, c := range g.Clusters {
			if _, has := s.given[c]; has && s.underWay(s.status(c)) {
				under++
			}
			own = own || slices.Contains(fresh, c)
		}
	}
	limit := share(s.strategy.Progressive.MaxConcurrency, total)
	if limit <= 0 || limit > total {
		limit = total
	}
	if own && under > limit {
		s.fail("%d clusters are under way, maxConcurrency is %d", under, limit)
	}
}

// checkFailures: nobody is started past maxFailures.
func (s *simulation) checkFailures(fresh []string) {
	total, failed := 0, 0
	for _, g := range s.groups {
		inGroup := 0
		for _, c := range g.Clusters {
			if _, has := s.given[c]; has && s.failed(s.status(c)) {
				inGroup++
			}
		}
		total, failed = total+len(g.Clusters), failed+inGroup
		if limit := s.maxFailures(g, len(g.Clusters)); s.strategy.Type == clusterv1alpha1.RolloutTypeProgressivePerGroup && inGroup > limit {
			// Only groups before it, which gained clusters, could go on.
			for _, c := range fresh {
				if s.groupOf(c).Index >= g.Index && s.mandatory(s.groupOf(c)) == s.mandatory(g) {
					s.fail("%s starts though %d of group %d failed and maxFailures is %d", c, inGroup, g.Index, limit)
				}
			}
		}
	}
	if limit := s.maxFailures(rollout.Group{Index: -1}, total); s.strategy.Type == clusterv1alpha1.RolloutTypeProgressive && failed > limit {
		s.fail("%v start though %d clusters failed and maxFailures is %d", fresh, failed, limit)
	}
}

func (s *simulation) maxFailures(g rollout.Group, total int) int {
	if s.mandatory(g) {
		return 0
	}
	if limit := share(s.config().MaxFailures, total); limit <= total {
		return limit
	}
	return 0
}

func share(v intstr.IntOrString, total int) int {
	if v.Type == intstr.Int {
		return v.IntValue()
	}
	var percent float64
	if _, err := fmt.Sscanf(v.StrVal, "%f%%", &percent); err != nil {
		panic(err)
	}
	return int(math.Ceil(percent / 100 * float64(total)))
}

func (s *simulation) groupOf(cluster string) rollout.Group {
	for _, g := range s.groups {
		if slices.Contains(g.Clusters, cluster) {
			return g
		}
	}
	return rollout.Group{Index: -1}
}

// checkMandatory: nobody else has it while a mandatory cluster is not done.
func (s *simulation) checkMandatory() {
	undone, others := "", ""
	for c, f := range s.fates {
		switch _, has := s.given[c]; {
		case s.mandatory(s.groupOf(c)):
			if x := s.status(c); !has || x.Status != rollout.Succeeded || s.underWay(x) || f.ends != rollout.Succeeded {
				undone = c
			}
		case has:
			others = c
		}
	}
	if undone != "" && others != "" {
		s.fail("%s has the change though the mandatory %s is not done", others, undone)
	}
}

// wait moves on to when something happens next, and reports whether anything will.
func (s *simulation) wait() bool {
	var next time.Time
	consider := func(at time.Time) {
		if at.After(s.now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for c, at := range s.given {
		f := s.fates[c]
		consider(at.Add(f.takes))
		if f.ends != rollout.Progressing {
			consider(at.Add(f.takes + f.works))
		}
	}
	if s.last.RecheckAfter > 0 {
		consider(s.now.Add(s.last.RecheckAfter))
	}
	if next.IsZero() {
		return false
	}
	s.now = next
	return true
}

func (s *simulation) fail(format string, args ...any) {
	s.Helper()
	s.Fatalf("%s\nstrategy %s %+v %+v\ngroups %+v\n%s", fmt.Sprintf(format, args...), s.strategy.Type, s.strategy.Progressive, s.strategy.ProgressivePerGroup, s.groups, strings.Join(s.log, "\n"))
}
