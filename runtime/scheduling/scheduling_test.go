package scheduling_test

import (
	"fmt"
	"slices"
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

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// clusters makes clusters with the given names.
func clusters(names ...string) []*clusterv1.ManagedCluster {
	var out []*clusterv1.ManagedCluster
	for _, n := range names {
		out = append(out, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"name": n}}})
	}
	return out
}

// input is a placement over clusters of one bound set.
func input(spec clusterv1beta1.PlacementSpec, all []*clusterv1.ManagedCluster) scheduling.Input {
	return scheduling.Input{
		Placement: &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Generation: 3}, Spec: spec},
		Sets:      scheduling.Sets{Bound: []string{"default"}, Eligible: []string{"default"}},
		Clusters:  all, Now: now,
	}
}

func chosen(r scheduling.Result) []string {
	var out []string
	for _, g := range r.Groups {
		out = append(out, g.Clusters...)
	}
	slices.Sort(out)
	return out
}

func mustChoose(t *testing.T, r scheduling.Result, want ...string) {
	t.Helper()
	if got := chosen(r); !slices.Equal(got, want) || r.Selected != len(want) {
		t.Errorf("chose %v (%d), want %v", got, r.Selected, want)
	}
}

func labelled(key, value string) clusterv1beta1.ClusterPredicate {
	return clusterv1beta1.ClusterPredicate{RequiredClusterSelector: clusterv1beta1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}}
}

func claiming(operator metav1.LabelSelectorOperator, key string, values ...string) clusterv1beta1.ClusterPredicate {
	return clusterv1beta1.ClusterPredicate{RequiredClusterSelector: clusterv1beta1.ClusterSelector{ClaimSelector: clusterv1beta1.ClusterClaimSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}},
	}}}
}

func TestPredicates(t *testing.T) {
	all := clusters("a", "b", "c")
	all[0].Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "platform", Value: "aws"}}
	all[1].Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "platform", Value: "gcp"}}
	both := labelled("name", "a")
	both.RequiredClusterSelector.ClaimSelector = claiming(metav1.LabelSelectorOpIn, "platform", "gcp").RequiredClusterSelector.ClaimSelector
	for name, x := range map[string]struct {
		predicates []clusterv1beta1.ClusterPredicate
		want       []string
	}{
		"none leaves all":                     {nil, []string{"a", "b", "c"}},
		"an empty one leaves all":             {[]clusterv1beta1.ClusterPredicate{{}}, []string{"a", "b", "c"}},
		"by label":                            {[]clusterv1beta1.ClusterPredicate{labelled("name", "b")}, []string{"b"}},
		"by claim":                            {[]clusterv1beta1.ClusterPredicate{claiming(metav1.LabelSelectorOpIn, "platform", "aws")}, []string{"a"}},
		"a missing claim is not in":           {[]clusterv1beta1.ClusterPredicate{claiming(metav1.LabelSelectorOpNotIn, "platform", "aws")}, []string{"b", "c"}},
		"a missing claim does not exist":      {[]clusterv1beta1.ClusterPredicate{claiming(metav1.LabelSelectorOpDoesNotExist, "platform")}, []string{"c"}},
		"label and claim must both hold":      {[]clusterv1beta1.ClusterPredicate{both}, nil},
		"one of several predicates is enough": {[]clusterv1beta1.ClusterPredicate{labelled("name", "c"), claiming(metav1.LabelSelectorOpIn, "platform", "aws")}, []string{"a", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			mustChoose(t, scheduling.Schedule(input(clusterv1beta1.PlacementSpec{Predicates: x.predicates}, all)), x.want...)
		})
	}
}

func TestTaintsAndTolerations(t *testing.T) {
	taint := func(effect clusterv1.TaintEffect) clusterv1.Taint {
		return clusterv1.Taint{Key: "gpu", Value: "old", Effect: effect, TimeAdded: ptr.To(metav1.NewTime(now.Add(-time.Minute)))}
	}
	toleration := func(change func(*clusterv1beta1.Toleration)) []clusterv1beta1.Toleration {
		o := clusterv1beta1.Toleration{Key: "gpu", Operator: clusterv1beta1.TolerationOpExists}
		if change != nil {
			change(&o)
		}
		return []clusterv1beta1.Toleration{o}
	}
	for name, x := range map[string]struct {
		taint       clusterv1.Taint
		tolerations []clusterv1beta1.Toleration
		selected    bool // before
		want        bool
		requeue     time.Duration
	}{
		"untolerated":                           {taint: taint(clusterv1.TaintEffectNoSelect)},
		"untolerated, though chosen":            {taint: taint(clusterv1.TaintEffectNoSelect), selected: true},
		"only a wish":                           {taint: taint(clusterv1.TaintEffectPreferNoSelect), want: true},
		"not newly selected":                    {taint: taint(clusterv1.TaintEffectNoSelectIfNew)},
		"not newly selected, but it was chosen": {taint: taint(clusterv1.TaintEffectNoSelectIfNew), selected: true, want: true},
		"tolerated":                             {taint: taint(clusterv1.TaintEffectNoSelect), tolerations: toleration(nil), want: true},
		"another key":                           {taint: taint(clusterv1.TaintEffectNoSelect), tolerations: toleration(func(o *clusterv1beta1.Toleration) { o.Key = "cpu" })},
		"any key":                               {taint: taint(clusterv1.TaintEffectNoSelect), tolerations: toleration(func(o *clusterv1beta1.Toleration) { o.Key = "" }), want: true},
		"another effect":                        {taint: taint(clusterv1.TaintEffectNoSelect), tolerations: toleration(func(o *clusterv1beta1.Toleration) { o.Effect = clusterv1.TaintEffectNoSelectIfNew })},
		"an equal value":                        {taint: taint(clusterv1.TaintEffectNoSelect), tolerations: toleration(func(o *clusterv1beta1.Toleration) { o.Operator, o.Value = "", "old" }), want: true},
		"another value":                         {taint: taint(clusterv1.TaintEffectNoSelect), tolerations: toleration(func(o *clusterv1beta1.Toleration) { o.Operator, o.Value = clusterv1beta1.TolerationOpEqual, "new" })},
		"an unknown operator":                   {taint: taint(clusterv1.TaintEffectNoSelect), tolerations: toleration(func(o *clusterv1beta1.Toleration) { o.Operator = "Like" })},
		"for a while, a new one has no timer":   {taint: taint(clusterv1.TaintEffectNoSelect), tolerations: toleration(func(o *clusterv1beta1.Toleration) { o.TolerationSeconds = ptr.To[int64](90) }), want: true},
		"for a while, a chosen one has":         {taint: taint(clusterv1.TaintEffectNoSelect), tolerations: toleration(func(o *clusterv1beta1.Toleration) { o.TolerationSeconds = ptr.To[int64](90) }), selected: true, want: true, requeue: 30 * time.Second},
		"no longer":                             {taint: taint(clusterv1.TaintEffectNoSelect), tolerations: toleration(func(o *clusterv1beta1.Toleration) { o.TolerationSeconds = ptr.To[int64](60) }), selected: true},
		"not for a moment":                      {taint: taint(clusterv1.TaintEffectNoSelect), tolerations: toleration(func(o *clusterv1beta1.Toleration) { o.TolerationSeconds = ptr.To[int64](0) })},
		"the next one still does": {
			taint:       taint(clusterv1.TaintEffectNoSelect),
			tolerations: append(toleration(func(o *clusterv1beta1.Toleration) { o.TolerationSeconds = ptr.To[int64](60) }), toleration(nil)...),
			want:        true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := clusters("a")
			all[0].Spec.Taints = []clusterv1.Taint{x.taint}
			in := input(clusterv1beta1.PlacementSpec{Tolerations: x.tolerations}, all)
			in.Selected = map[string]bool{"a": x.selected}
			r := scheduling.Schedule(in)
			if (r.Selected == 1) != x.want || r.RequeueAfter != x.requeue {
				t.Errorf("chosen %v with a timer of %s, want %v and %s", r.Selected == 1, r.RequeueAfter, x.want, x.requeue)
			}
		})
	}
}

func coordinate(builtIn string, weight int32) clusterv1beta1.PrioritizerConfig {
	return clusterv1beta1.PrioritizerConfig{ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{BuiltIn: builtIn}, Weight: &weight}
}

func TestPrioritizers(t *testing.T) {
	exact := func(c ...clusterv1beta1.PrioritizerConfig) clusterv1beta1.PrioritizerPolicy {
		return clusterv1beta1.PrioritizerPolicy{Mode: clusterv1beta1.PrioritizerPolicyModeExact, Configurations: c}
	}
	addOn := clusterv1beta1.PrioritizerConfig{ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{
		Type: clusterv1beta1.ScoreCoordinateTypeAddOn, AddOn: &clusterv1beta1.AddOnScore{ResourceName: "cost", ScoreName: "hourly"},
	}, Weight: ptr.To[int32](-2)}
	all := clusters("a", "b", "c", "d")
	for i, cpu := range []string{"1", "2", "4"} { // d reports none
		all[i].Status.Allocatable = clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse(cpu)}
		all[i].Status.Capacity = clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse("8")}
	}
	score := func(name, resource string) *clusterv1alpha1.AddOnPlacementScore {
		if resource != "cost" || name == "d" {
			return nil
		}
		s := &clusterv1alpha1.AddOnPlacementScore{}
		s.Status.Scores = []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "hourly", Value: map[string]int32{"a": 10, "b": 20, "c": 30}[name]}}
		if name == "c" {
			s.Status.ValidUntil = ptr.To(metav1.NewTime(now.Add(-time.Second)))
		}
		return s
	}
	for name, x := range map[string]struct {
		policy clusterv1beta1.PrioritizerPolicy
		want   map[string]int64
	}{
		// b is in two of three decisions elsewhere, c in all three: 2*trunc(100*(0.5-2/3)) = -32.
		"balance and steady by default": {clusterv1beta1.PrioritizerPolicy{}, map[string]int64{"a": 200, "b": -32, "c": -100, "d": 100}},
		"balance":                       {exact(coordinate("Balance", 1)), map[string]int64{"a": 100, "b": -32, "c": -100, "d": 100}},
		"steady":                        {exact(coordinate("Steady", 3)), map[string]int64{"a": 300, "b": 0, "c": 0, "d": 0}},
		"allocatable":                   {exact(coordinate("ResourceAllocatableCPU", 1)), map[string]int64{"a": -100, "b": -33, "c": 100}},
		"nothing at all":                {exact(), map[string]int64{}},
		"a default turned off":          {clusterv1beta1.PrioritizerPolicy{Configurations: []clusterv1beta1.PrioritizerConfig{coordinate("Balance", 0)}}, map[string]int64{"a": 100, "b": 0, "c": 0, "d": 0}},
		"an add-on's score, expired for c, missing for d": {exact(addOn), map[string]int64{"a": -20, "b": -40, "c": 0, "d": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(clusterv1beta1.PlacementSpec{PrioritizerPolicy: x.policy}, all)
			in.Selected = map[string]bool{"a": true}
			in.Elsewhere = map[string]int{"b": 2, "c": 3}
			in.Score = score
			r := scheduling.Schedule(in)
			if r.Selected != 4 {
				t.Errorf("chose %d, want all: a score keeps nobody out", r.Selected)
			}
			for name, want := range x.want {
				if r.Total[name] != want {
					t.Errorf("%s has %d, want %d", name, r.Total[name], want)
				}
			}
		})
	}
}

func TestTheBestAreChosenAndThenTheFirstByName(t *testing.T) {
	for name, x := range map[string]struct {
		n    *int32
		want []string
	}{
		"all":        {nil, []string{"a", "b", "c"}},
		"none":       {ptr.To[int32](0), nil},
		"the best":   {ptr.To[int32](1), []string{"c"}},
		"and a next": {ptr.To[int32](2), []string{"a", "c"}},
		"too many":   {ptr.To[int32](9), []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(clusterv1beta1.PlacementSpec{NumberOfClusters: x.n}, clusters("c", "b", "a"))
			in.Selected = map[string]bool{"c": true}
			mustChoose(t, scheduling.Schedule(in), x.want...)
		})
	}
}

func TestConditions(t *testing.T) {
	two := clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To[int32](2)}
	for name, x := range map[string]struct {
		change    func(*scheduling.Input)
		spec      clusterv1beta1.PlacementSpec
		satisfied string // status/reason/message
		misconfig string // its message, when there is one
	}{
		"satisfied":        {nil, clusterv1beta1.PlacementSpec{}, "True/AllDecisionsScheduled/All cluster decisions scheduled", ""},
		"not enough":       {nil, clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To[int32](5)}, "False/NotAllDecisionsScheduled/3 cluster decisions unscheduled", ""},
		"just enough":      {nil, two, "True/AllDecisionsScheduled/All cluster decisions scheduled", ""},
		"no binding":       {func(in *scheduling.Input) { in.Sets, in.Clusters = scheduling.Sets{}, nil }, two, "False/NoManagedClusterSetBindings/No valid ManagedClusterSetBindings found in placement namespace", ""},
		"another's":        {func(in *scheduling.Input) { in.Sets.Eligible, in.Clusters = nil, nil }, clusterv1beta1.PlacementSpec{ClusterSets: []string{"b", "a"}}, "False/NoIntersection/None of ManagedClusterSets [b,a] is bound to placement namespace", ""},
		"empty":            {func(in *scheduling.Input) { in.Clusters = nil }, two, "False/AllManagedClusterSetsEmpty/All ManagedClusterSets [default] have no member ManagedCluster", ""},
		"nothing matches":  {nil, clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{labelled("name", "x")}}, "False/NoManagedClusterMatched/No ManagedCluster matches any of the cluster predicate", ""},
		"a bad selector":   {nil, clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{claiming("Like", "a")}}, "False/NoManagedClusterMatched/No ManagedCluster matches any of the cluster predicate", `Predicate:"Like" is not a valid label selector operator`},
		"a bad toleration": {nil, clusterv1beta1.PlacementSpec{Tolerations: []clusterv1beta1.Toleration{{Operator: "Equal"}}}, "False/NoManagedClusterMatched/No ManagedCluster matches any of the cluster predicate", "TaintToleration:If the key is empty, operator must be Exists."},
		"exists a value":   {nil, clusterv1beta1.PlacementSpec{Tolerations: []clusterv1beta1.Toleration{{Operator: "Exists", Value: "a"}}}, "False/NoManagedClusterMatched/No ManagedCluster matches any of the cluster predicate", "TaintToleration:If the operator is Exists, the value should be empty."},
		"a bad mode":       {nil, clusterv1beta1.PlacementSpec{PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{Mode: "X"}}, "False/NoManagedClusterMatched/No ManagedCluster matches any of the cluster predicate", ":incorrect prioritizer policy mode: X"},
		"a bad prioritizer": {nil, clusterv1beta1.PlacementSpec{PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{Configurations: []clusterv1beta1.PrioritizerConfig{coordinate("Luck", 1)}}},
			"False/NoManagedClusterMatched/No ManagedCluster matches any of the cluster predicate", ":incorrect builtin prioritizer: Luck"},
		"a bad group size": {nil, clusterv1beta1.PlacementSpec{DecisionStrategy: clusterv1beta1.DecisionStrategy{GroupStrategy: clusterv1beta1.GroupStrategy{ClustersPerDecisionGroup: intstr.FromString("half")}}},
			"False/NoManagedClusterMatched/No ManagedCluster matches any of the cluster predicate", ":half invalid type: string is not a percentage"},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(x.spec, clusters("a", "b"))
			if x.change != nil {
				x.change(&in)
			}
			r := scheduling.Schedule(in)
			misconfigured, satisfied := r.Conditions[0], r.Conditions[1]
			if got := fmt.Sprintf("%s/%s/%s", satisfied.Status, satisfied.Reason, satisfied.Message); satisfied.Type != "PlacementSatisfied" || got != x.satisfied {
				t.Errorf("%s is %s, want %s", satisfied.Type, got, x.satisfied)
			}
			want := "False/Succeedconfigured/Placement configurations check pass"
			if x.misconfig != "" {
				want = "True/Misconfigured/" + x.misconfig
			}
			if got := fmt.Sprintf("%s/%s/%s", misconfigured.Status, misconfigured.Reason, misconfigured.Message); misconfigured.Type != "PlacementMisconfigured" || got != want {
				t.Errorf("%s is %s, want %s", misconfigured.Type, got, want)
			}
			if misconfigured.ObservedGeneration != 3 || satisfied.ObservedGeneration != 3 {
				t.Error("the conditions do not say which generation they are about")
			}
		})
	}
}

func TestDecisionGroups(t *testing.T) {
	odd := clusterv1beta1.DecisionGroup{GroupName: "canary", GroupClusterSelector: clusterv1beta1.GroupClusterSelector{
		LabelSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "name", Operator: metav1.LabelSelectorOpIn, Values: []string{"e", "c", "a"}}}},
	}}
	for name, x := range map[string]struct {
		strategy clusterv1beta1.GroupStrategy
		clusters []string
		want     string
	}{
		"one group":               {clusterv1beta1.GroupStrategy{}, []string{"b", "a"}, ":a,b"},
		"by number":               {clusterv1beta1.GroupStrategy{ClustersPerDecisionGroup: intstr.FromInt32(2)}, []string{"a", "b", "c"}, ":a,b :c"},
		"by share, rounded up":    {clusterv1beta1.GroupStrategy{ClustersPerDecisionGroup: intstr.FromString("34%")}, []string{"a", "b", "c", "d"}, ":a,b :c,d"},
		"a size of no sense":      {clusterv1beta1.GroupStrategy{ClustersPerDecisionGroup: intstr.FromInt32(-1)}, []string{"a", "b"}, ":a,b"},
		"named groups come first": {clusterv1beta1.GroupStrategy{DecisionGroups: []clusterv1beta1.DecisionGroup{odd}, ClustersPerDecisionGroup: intstr.FromInt32(2)}, []string{"a", "b", "c", "d", "e"}, "canary:a,c canary:e :b,d"},
		"no cluster":              {clusterv1beta1.GroupStrategy{}, nil, ":"},
	} {
		t.Run(name, func(t *testing.T) {
			r := scheduling.Schedule(input(clusterv1beta1.PlacementSpec{DecisionStrategy: clusterv1beta1.DecisionStrategy{GroupStrategy: x.strategy}}, clusters(x.clusters...)))
			var got []string
			for _, g := range r.Groups {
				got = append(got, g.Name+":"+strings.Join(g.Clusters, ","))
			}
			if s := strings.Join(got, " "); s != x.want {
				t.Errorf("got %q, want %q", s, x.want)
			}
		})
	}
}

func TestDecisionsAreCutIntoSlices(t *testing.T) {
	var names []string
	for i := range 150 {
		names = append(names, fmt.Sprintf("c%03d", i))
	}
	got := scheduling.Decisions("p", []scheduling.Group{{Name: "canary", Clusters: names}, {Clusters: names[:1]}, {}})
	want := []string{"p-decision-1 canary 0 100", "p-decision-2 canary 0 50", "p-decision-3  1 1", "p-decision-4  2 0"}
	for i, d := range got {
		l := d.Labels
		s := fmt.Sprintf("%s %s %s %d", d.Name, l["cluster.open-cluster-management.io/decision-group-name"], l["cluster.open-cluster-management.io/decision-group-index"], len(d.Clusters))
		if i >= len(want) || s != want[i] || l["cluster.open-cluster-management.io/placement"] != "p" {
			t.Errorf("decision %d is %q of placement %q", i, s, l["cluster.open-cluster-management.io/placement"])
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d decisions, want %d", len(got), len(want))
	}
}

func TestResultExplainsItself(t *testing.T) {
	all := clusters("a", "b")
	all[1].Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectNoSelect}}
	r := scheduling.Schedule(input(clusterv1beta1.PlacementSpec{}, all))
	if len(r.Filters) != 2 || r.Filters[1].Name != "Predicate,TaintToleration" || !slices.Equal(r.Filters[1].Clusters, []string{"a"}) {
		t.Errorf("the filters left %+v", r.Filters)
	}
	if len(r.Scores) != 2 || r.Scores[0].Name != "Balance" || r.Scores[0].Scores["a"] != 100 {
		t.Errorf("the prioritizers gave %+v", r.Scores)
	}
}

func BenchmarkSchedule(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("%d clusters", n), func(b *testing.B) {
			var all []*clusterv1.ManagedCluster
			for i := range n {
				c := clusters(fmt.Sprintf("cluster-%05d", i))[0]
				c.Labels["region"] = []string{"eu", "us", "ap"}[i%3]
				c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "platform", Value: "aws"}}
				all = append(all, c)
			}
			predicate := labelled("region", "eu")
			predicate.RequiredClusterSelector.ClaimSelector = claiming(metav1.LabelSelectorOpIn, "platform", "aws").RequiredClusterSelector.ClaimSelector
			in := input(clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{predicate}, NumberOfClusters: ptr.To(int32(n / 10))}, all)
			for b.Loop() {
				scheduling.Schedule(in)
			}
		})
	}
}
