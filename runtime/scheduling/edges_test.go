package scheduling_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

const noMatch = "NoManagedClusterMatched"

// scored is a placement that ranks by the item "hourly" of the score "cost".
func scored() clusterv1beta1.PlacementSpec {
	return clusterv1beta1.PlacementSpec{PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{
		Mode: clusterv1beta1.PrioritizerPolicyModeExact,
		Configurations: []clusterv1beta1.PrioritizerConfig{{ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{
			Type: clusterv1beta1.ScoreCoordinateTypeAddOn, AddOn: &clusterv1beta1.AddOnScore{ResourceName: "cost", ScoreName: "hourly"},
		}}},
	}}
}

// published is a look-up of scores, valid for the given times from now.
func published(value int32, validFor map[string]time.Duration) func(string, string) *clusterv1alpha1.AddOnPlacementScore {
	return func(name, _ string) *clusterv1alpha1.AddOnPlacementScore {
		s := &clusterv1alpha1.AddOnPlacementScore{}
		s.Status.Scores = []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "another", Value: 1}, {Name: "hourly", Value: value}}
		if d, ok := validFor[name]; ok {
			s.Status.ValidUntil = ptr.To(metav1.NewTime(now.Add(d)))
		}
		return s
	}
}

func TestEveryTaintMustBeTolerated(t *testing.T) {
	added := ptr.To(metav1.NewTime(now))
	all := clusters("one", "both")
	all[0].Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: added}}
	all[1].Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: added}, {Key: "y", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: added}}
	spec := clusterv1beta1.PlacementSpec{Tolerations: []clusterv1beta1.Toleration{{Key: "x", Operator: clusterv1beta1.TolerationOpExists}}}
	mustChoose(t, scheduling.Schedule(input(spec, all)), "one")
}

func TestTolerationSeconds(t *testing.T) {
	for name, x := range map[string]struct {
		seconds int64
		taint   clusterv1.Taint
		want    bool
	}{
		"before the end":                {61, clusterv1.Taint{Effect: clusterv1.TaintEffectNoSelect}, true},
		"at the end":                    {60, clusterv1.Taint{Effect: clusterv1.TaintEffectNoSelect}, false},
		"a negative time is over":       {-1, clusterv1.Taint{Effect: clusterv1.TaintEffectNoSelect}, false},
		"it counts for NoSelectIfNew":   {60, clusterv1.Taint{Effect: clusterv1.TaintEffectNoSelectIfNew}, false},
		"longer than a clock can count": {math.MaxInt64, clusterv1.Taint{Effect: clusterv1.TaintEffectNoSelect}, true},
		"three hundred years":           {300 * 365 * 24 * 3600, clusterv1.Taint{Effect: clusterv1.TaintEffectNoSelect}, true},
	} {
		t.Run(name, func(t *testing.T) {
			all := clusters("a")
			x.taint.Key, x.taint.TimeAdded = "x", ptr.To(metav1.NewTime(now.Add(-time.Minute)))
			all[0].Spec.Taints = []clusterv1.Taint{x.taint}
			spec := clusterv1beta1.PlacementSpec{Tolerations: []clusterv1beta1.Toleration{{Key: "x", Operator: clusterv1beta1.TolerationOpExists, TolerationSeconds: &x.seconds}}}
			if got := scheduling.Schedule(input(spec, all)).Selected == 1; got != x.want {
				t.Errorf("tolerated: %v, want %v", got, x.want)
			}
		})
	}
}

func TestTheTimerIsForWhatEndsFirst(t *testing.T) {
	all := clusters("a", "b", "new")
	for i, since := range []time.Duration{10 * time.Second, 40 * time.Second, 59 * time.Second} {
		all[i].Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: ptr.To(metav1.NewTime(now.Add(-since)))}}
	}
	in := input(clusterv1beta1.PlacementSpec{Tolerations: []clusterv1beta1.Toleration{{Operator: clusterv1beta1.TolerationOpExists, TolerationSeconds: ptr.To[int64](60)}}}, all)
	in.Selected = map[string]bool{"a": true, "b": true}
	r := scheduling.Schedule(in)
	mustChoose(t, r, "a", "b", "new")
	if r.RequeueAfter != 20*time.Second {
		t.Errorf("the timer is for %s, want 20s, when b's ends: new has none yet", r.RequeueAfter)
	}
}

func TestScoresOfAddOns(t *testing.T) {
	for name, x := range map[string]struct {
		value    int32
		validFor map[string]time.Duration
		want     int64
		requeue  time.Duration
	}{
		"for ever":                       {40, nil, 40, 0},
		"for a while, and then again":    {40, map[string]time.Duration{"a": time.Minute}, 40, time.Minute + 1},
		"until this moment":              {40, map[string]time.Duration{"a": 0}, 40, 1},
		"no longer":                      {40, map[string]time.Duration{"a": -time.Second}, 0, 0},
		"no more than a prioritizer may": {400, nil, 100, 0},
		"no less than a prioritizer may": {-400, nil, -100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(scored(), clusters("a"))
			in.Score = published(x.value, x.validFor)
			r := scheduling.Schedule(in)
			if r.Total["a"] != x.want || r.RequeueAfter != x.requeue {
				t.Errorf("the score is %d with a timer of %s, want %d and %s", r.Total["a"], r.RequeueAfter, x.want, x.requeue)
			}
		})
	}
}

func TestAScoreOfAnotherNameCountsNothing(t *testing.T) {
	spec := scored()
	spec.PrioritizerPolicy.Configurations[0].ScoreCoordinate.AddOn.ScoreName = "missing"
	in := input(spec, clusters("a"))
	in.Score = published(40, nil)
	if r := scheduling.Schedule(in); r.Total["a"] != 0 || r.Selected != 1 {
		t.Errorf("a has %d and %d are chosen, want 0 and 1", r.Total["a"], r.Selected)
	}
}

func TestAllocatable(t *testing.T) {
	for name, x := range map[string]struct {
		coordinate string
		resource   clusterv1.ResourceName
		values     []string
		noCapacity bool
		want       []int64
	}{
		"all alike":                 {"ResourceAllocatableCPU", clusterv1.ResourceCPU, []string{"2", "2"}, false, []int64{100, 100}},
		"memory":                    {"ResourceAllocatableMemory", clusterv1.ResourceMemory, []string{"1Gi", "3Gi", "2Gi"}, false, []int64{-100, 100, 0}},
		"another resource":          {"ResourceAllocatableMemory", clusterv1.ResourceCPU, []string{"1", "2"}, false, []int64{0, 0}},
		"none without the capacity": {"ResourceAllocatableCPU", clusterv1.ResourceCPU, []string{"1", "2"}, true, []int64{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			all := clusters([]string{"a", "b", "c"}[:len(x.values)]...)
			for i, v := range x.values {
				all[i].Status.Allocatable = clusterv1.ResourceList{x.resource: resource.MustParse(v)}
				if !x.noCapacity {
					all[i].Status.Capacity = all[i].Status.Allocatable
				}
			}
			policy := clusterv1beta1.PrioritizerPolicy{Mode: clusterv1beta1.PrioritizerPolicyModeExact, Configurations: []clusterv1beta1.PrioritizerConfig{coordinate(x.coordinate, 1)}}
			r := scheduling.Schedule(input(clusterv1beta1.PlacementSpec{PrioritizerPolicy: policy}, all))
			for i, want := range x.want {
				if got := r.Total[all[i].Name]; got != want {
					t.Errorf("%s has %d, want %d", all[i].Name, got, want)
				}
			}
		})
	}
}

func TestBalanceTruncatesAndThenDoubles(t *testing.T) {
	for count, want := range map[int]int64{1: 32, 2: -32, 3: -100} {
		in := input(clusterv1beta1.PlacementSpec{PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{
			Mode: clusterv1beta1.PrioritizerPolicyModeExact, Configurations: []clusterv1beta1.PrioritizerConfig{coordinate("Balance", 1)},
		}}, clusters("a"))
		// The most chosen one need not be a candidate.
		in.Elsewhere = map[string]int{"a": count, "not a candidate": 3}
		if got := scheduling.Schedule(in).Total["a"]; got != want {
			t.Errorf("in %d of at most 3 decisions elsewhere: %d, want %d", count, got, want)
		}
	}
}

func TestWhatIsWrongWithAPrioritizerIsReported(t *testing.T) {
	for name, x := range map[string]struct {
		coordinate *clusterv1beta1.ScoreCoordinate
		want       string
	}{
		"no coordinate":           {nil, ":scoreCoordinate field is required"},
		"an add-on without addOn": {&clusterv1beta1.ScoreCoordinate{Type: clusterv1beta1.ScoreCoordinateTypeAddOn}, ":addOn should not be empty"},
		"any other type":          {&clusterv1beta1.ScoreCoordinate{Type: "Luck"}, ":addOn should not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := clusterv1beta1.PlacementSpec{PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{Configurations: []clusterv1beta1.PrioritizerConfig{{ScoreCoordinate: x.coordinate}}}}
			r := scheduling.Schedule(input(spec, clusters("a")))
			mustChoose(t, r)
			if got := r.Conditions[0]; got.Status != metav1.ConditionTrue || got.Message != x.want {
				t.Errorf("the condition is %s %q, want True %q", got.Status, got.Message, x.want)
			}
		})
	}
}

func TestNoClustersAskedForIsNoMatch(t *testing.T) {
	r := scheduling.Schedule(input(clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To[int32](0)}, clusters("a")))
	if got := r.Conditions[1]; got.Status != metav1.ConditionFalse || got.Reason != noMatch {
		t.Errorf("the condition is %s/%s, want False/%s", got.Status, got.Reason, noMatch)
	}
}

func TestABadSelectorGoesUnnoticedWithoutClusters(t *testing.T) {
	spec := clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{claiming("Like", "a")}, Tolerations: []clusterv1beta1.Toleration{{Operator: "Equal"}}}
	r := scheduling.Schedule(input(spec, nil))
	if got := r.Conditions[0]; got.Status != metav1.ConditionFalse || got.Reason != "Succeedconfigured" {
		t.Errorf("the condition is %s/%s, want False/Succeedconfigured", got.Status, got.Reason)
	}
}

func TestWhatAMisconfigurationDoesToDecisions(t *testing.T) {
	badSize := clusterv1beta1.DecisionStrategy{GroupStrategy: clusterv1beta1.GroupStrategy{ClustersPerDecisionGroup: intstr.FromString("half")}}
	badGroup := clusterv1beta1.DecisionStrategy{GroupStrategy: clusterv1beta1.GroupStrategy{DecisionGroups: []clusterv1beta1.DecisionGroup{{
		GroupName: "g", GroupClusterSelector: clusterv1beta1.GroupClusterSelector{ClaimSelector: claiming("Like", "a").RequiredClusterSelector.ClaimSelector},
	}}}}
	expiredAndBadSize := scored()
	expiredAndBadSize.DecisionStrategy = badSize
	for name, x := range map[string]struct {
		spec      clusterv1beta1.PlacementSpec
		decisions int
		message   string
	}{
		"a filter's leaves the first, empty":                    {clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{claiming("Like", "a")}}, 1, `Predicate:"Like"`},
		"a prioritizer's leaves the first, empty":               {clusterv1beta1.PlacementSpec{PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{Mode: "X"}}, 1, ":incorrect"},
		"a group size's leaves none":                            {clusterv1beta1.PlacementSpec{DecisionStrategy: badSize}, 0, ":half invalid"},
		"a group selector's leaves none":                        {clusterv1beta1.PlacementSpec{DecisionStrategy: badGroup}, 0, `:"Like"`},
		"a group size's is reported though a score is out, too": {expiredAndBadSize, 0, ":half invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(x.spec, clusters("a", "b"))
			in.Score = published(1, map[string]time.Duration{"a": -time.Hour})
			r := scheduling.Schedule(in)
			mustChoose(t, r)
			if got := len(scheduling.Decisions("p", r.Groups)); got != x.decisions {
				t.Errorf("%d decisions are left, want %d", got, x.decisions)
			}
			if c := r.Conditions[0]; c.Status != metav1.ConditionTrue || !strings.HasPrefix(c.Message, x.message) {
				t.Errorf("the condition is %s %q, want True %q…", c.Status, c.Message, x.message)
			}
			if c := r.Conditions[1]; c.Reason != noMatch {
				t.Errorf("the placement is %s, want %s", c.Reason, noMatch)
			}
		})
	}
}

func TestGroupSizes(t *testing.T) {
	for _, x := range []struct {
		size  intstr.IntOrString
		total int
		want  int // the first group's size
	}{
		{intstr.FromString("100%"), 7, 7},
		{intstr.FromString("1%"), 7, 1},
		{intstr.FromString("50%"), 7, 4},
		// Exact shares are not rounded up: 0.28 * 25 is more than 7 in binary.
		{intstr.FromString("28%"), 25, 7},
		{intstr.FromString("7%"), 100, 7},
		{intstr.FromString("-5%"), 4, 4},
		{intstr.FromString("9223372036854775807%"), 4, 4},
		{intstr.FromString(""), 4, 4},
		{intstr.FromInt32(9), 4, 4},
		{intstr.FromInt32(4), 4, 4},
		{intstr.FromInt32(1), 4, 1},
	} {
		t.Run(fmt.Sprintf("%s of %d", x.size.String(), x.total), func(t *testing.T) {
			var names []string
			for i := range x.total {
				names = append(names, fmt.Sprintf("c%03d", i))
			}
			r := scheduling.Schedule(input(clusterv1beta1.PlacementSpec{DecisionStrategy: clusterv1beta1.DecisionStrategy{GroupStrategy: clusterv1beta1.GroupStrategy{ClustersPerDecisionGroup: x.size}}}, clusters(names...)))
			if got := len(r.Groups[0].Clusters); got != x.want {
				t.Errorf("the first group holds %d, want %d", got, x.want)
			}
		})
	}
}

func TestAShareIsOfTheChosen(t *testing.T) {
	r := scheduling.Schedule(input(clusterv1beta1.PlacementSpec{
		NumberOfClusters: ptr.To[int32](4),
		DecisionStrategy: clusterv1beta1.DecisionStrategy{GroupStrategy: clusterv1beta1.GroupStrategy{ClustersPerDecisionGroup: intstr.FromString("50%")}},
	}, clusters("a", "b", "c", "d", "e", "f", "g", "h")))
	if len(r.Groups) != 2 || len(r.Groups[0].Clusters) != 2 {
		t.Errorf("the groups are %+v, want two of two", r.Groups)
	}
}

func TestGroupsByClaimTakeEachClusterOnce(t *testing.T) {
	all := clusters("a", "b", "c")
	all[1].Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "env", Value: "test"}}
	group := func(name string, s clusterv1beta1.GroupClusterSelector) clusterv1beta1.DecisionGroup {
		return clusterv1beta1.DecisionGroup{GroupName: name, GroupClusterSelector: s}
	}
	r := scheduling.Schedule(input(clusterv1beta1.PlacementSpec{DecisionStrategy: clusterv1beta1.DecisionStrategy{GroupStrategy: clusterv1beta1.GroupStrategy{DecisionGroups: []clusterv1beta1.DecisionGroup{
		group("test", clusterv1beta1.GroupClusterSelector{ClaimSelector: claiming(metav1.LabelSelectorOpIn, "env", "test").RequiredClusterSelector.ClaimSelector}),
		group("none left", clusterv1beta1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"name": "b"}}}),
		group("all", clusterv1beta1.GroupClusterSelector{}),
	}}}}, all))
	var got []string
	for _, g := range r.Groups {
		got = append(got, g.Name+":"+strings.Join(g.Clusters, ","))
	}
	if s := strings.Join(got, " "); s != "test:b all:a,c" {
		t.Errorf("the groups are %q, want test:b all:a,c", s)
	}
}
