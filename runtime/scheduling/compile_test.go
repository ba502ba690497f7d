package scheduling_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

func TestProblemsOfEveryPartAreListed(t *testing.T) {
	c := compiled(t, `{predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["1 +"]}}}], tolerations: [{operator: Equal}],
prioritizerPolicy: {mode: X}, decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: half}}}`)
	want := []string{"Predicate:compilation failed: ", "TaintToleration:If the key is empty", ":incorrect prioritizer policy mode: X", ":half invalid type: string is not a percentage"}
	problems := c.Problems()
	for i, p := range problems {
		if i >= len(want) || !strings.HasPrefix(p.String(), want[i]) {
			t.Errorf("problem %d is %q", i, p)
		}
	}
	if len(problems) != len(want) {
		t.Errorf("%d problems, want %d", len(problems), len(want))
	}
	if got := compiled(t, byEnv).Problems(); got != nil {
		t.Errorf("a good placement has %v", got)
	}
}

func TestMisconfiguredSaysWhatComesToLight(t *testing.T) {
	bad := compiled(t, `{predicates: [{requiredClusterSelector: {claimSelector: {matchExpressions: [{key: a, operator: Like}]}}}], tolerations: [{operator: Equal}], prioritizerPolicy: {mode: X}}`)
	badTolerations := compiled(t, `{tolerations: [{operator: Equal}]}`)
	for name, x := range map[string]struct {
		compiled            *scheduling.Compiled
		available, matching int
		want                string
	}{
		"the predicate comes first":            {bad, 1, 0, "Predicate"},
		"nothing of it without clusters":       {bad, 0, 0, ""},
		"tolerations when some match":          {badTolerations, 2, 1, "TaintToleration"},
		"nothing of tolerations when none do":  {badTolerations, 2, 0, "none"},
		"nothing is wrong with what is proper": {compiled(t, byEnv), 1, 1, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			got := "none"
			if p := x.compiled.Misconfigured(x.available, x.matching); p != nil {
				got = p.Plugin
			}
			if got != x.want {
				t.Errorf("the problem is %q's, want %q's", got, x.want)
			}
		})
	}
}

// A caller that asks about one cluster at a time gets the same results as a whole scheduling.
func TestTolerance(t *testing.T) {
	taint := func(key string, effect clusterv1.TaintEffect, ago time.Duration) clusterv1.Taint {
		return clusterv1.Taint{Key: key, Effect: effect, TimeAdded: ptr.To(metav1.NewTime(now.Add(-ago)))}
	}
	c := scheduling.Compile(&clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{Tolerations: []clusterv1beta1.Toleration{
		{Key: "minute", Operator: clusterv1beta1.TolerationOpExists, TolerationSeconds: ptr.To[int64](60)},
		{Key: "ever", Operator: clusterv1beta1.TolerationOpExists},
	}}}, scheduling.Options{PreferNoSelect: true})
	for name, x := range map[string]struct {
		taints   []clusterv1.Taint
		selected bool
		want     scheduling.Tolerance
	}{
		"no taint":                     {nil, false, scheduling.Tolerance{OK: true}},
		"for ever":                     {[]clusterv1.Taint{taint("ever", "NoSelect", 0)}, false, scheduling.Tolerance{OK: true}},
		"until an end":                 {[]clusterv1.Taint{taint("minute", "NoSelect", 20*time.Second)}, false, scheduling.Tolerance{OK: true, Until: now.Add(40 * time.Second)}},
		"until the first end":          {[]clusterv1.Taint{taint("minute", "NoSelect", 20*time.Second), taint("minute", "NoSelect", 50*time.Second)}, false, scheduling.Tolerance{OK: true, Until: now.Add(10 * time.Second)}},
		"no longer":                    {[]clusterv1.Taint{taint("minute", "NoSelect", time.Minute)}, false, scheduling.Tolerance{}},
		"one of two":                   {[]clusterv1.Taint{taint("minute", "NoSelect", 0), taint("x", "NoSelect", 0)}, false, scheduling.Tolerance{Until: now.Add(time.Minute)}},
		"not newly selected":           {[]clusterv1.Taint{taint("x", "NoSelectIfNew", 0)}, false, scheduling.Tolerance{}},
		"further":                      {[]clusterv1.Taint{taint("x", "NoSelectIfNew", 0)}, true, scheduling.Tolerance{OK: true}},
		"others first":                 {[]clusterv1.Taint{taint("x", "PreferNoSelect", 0)}, false, scheduling.Tolerance{OK: true, Avoid: true}},
		"not others first for a while": {[]clusterv1.Taint{taint("minute", "PreferNoSelect", 0)}, false, scheduling.Tolerance{OK: true, Until: now.Add(time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := clusters("a")[0]
			cluster.Spec.Taints = x.taints
			if got := c.Tolerates(scheduling.NewView(cluster), x.selected, now); !reflect.DeepEqual(got, x.want) {
				t.Errorf("got %+v, want %+v", got, x.want)
			}
		})
	}
}

func TestACompiledPlacementSchedulesAgainAndAgain(t *testing.T) {
	c := compiled(t, `{numberOfClusters: 1, predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.metadata.name != 'a'"]}}}]}`)
	for _, names := range [][]string{{"a", "b", "c"}, {"a"}, {"c"}} {
		in := input(c.Placement().Spec, clusters(names...))
		if got, want := c.Schedule(in), scheduling.Schedule(in); !reflect.DeepEqual(inGroups(got), inGroups(want)) || got.Selected != want.Selected {
			t.Errorf("of %v it chooses %s, a new one %s", names, inGroups(got), inGroups(want))
		}
	}
}

func TestWarnsOfExpiredScores(t *testing.T) {
	in := input(scored(), clusters("a", "b", "c"))
	in.Score = published(40, map[string]time.Duration{"a": -time.Second, "b": time.Hour, "c": -time.Hour})
	r := scheduling.Schedule(in)
	if r.Warning == nil || r.Warning.Plugin != "AddOn/cost/hourly" || r.Warning.Message != "AddOnPlacementScores a/cost c/cost expired" || r.Misconfigured != nil {
		t.Errorf("the warning is %v, misconfigured is %v", r.Warning, r.Misconfigured)
	}
	if r.Selected != 3 || r.Conditions[1].Status != metav1.ConditionTrue {
		t.Errorf("%d are chosen, want all", r.Selected)
	}
}

func TestDecisionsThatBelongToAPlacement(t *testing.T) {
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "1"}}
	unborn := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	nameless := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	labelled := func(name string) map[string]string {
		return map[string]string{"cluster.open-cluster-management.io/placement": name}
	}
	owned := func(uid string) []metav1.OwnerReference {
		o := metav1.OwnerReference{Kind: "Placement", Name: "p", Controller: ptr.To(true)}
		o.UID = p.UID[:0]
		if uid != "" {
			o.UID = p.UID
		}
		return []metav1.OwnerReference{o}
	}
	for name, x := range map[string]struct {
		placement *clusterv1beta1.Placement
		decision  metav1.ObjectMeta
		want      bool
	}{
		"by its label":                         {p, metav1.ObjectMeta{Namespace: "ns", Name: "x", Labels: labelled("p")}, true},
		"by its owner":                         {p, metav1.ObjectMeta{Namespace: "ns", Name: "x", OwnerReferences: owned("1")}, true},
		"by its name":                          {p, metav1.ObjectMeta{Namespace: "ns", Name: "p-decision-12"}, true},
		"not in another namespace":             {p, metav1.ObjectMeta{Namespace: "other", Name: "p-decision-1", Labels: labelled("p")}, false},
		"not of another":                       {p, metav1.ObjectMeta{Namespace: "ns", Name: "q-decision-1", Labels: labelled("q")}, false},
		"not by a name that is not a number":   {p, metav1.ObjectMeta{Namespace: "ns", Name: "p-decision-x"}, false},
		"one without a name has none":          {nameless, metav1.ObjectMeta{Namespace: "ns", Name: "-decision-1"}, false},
		"one that does not exist owns nothing": {unborn, metav1.ObjectMeta{Namespace: "ns", Name: "x", OwnerReferences: owned("")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := scheduling.Belongs(&clusterv1beta1.PlacementDecision{ObjectMeta: x.decision}, x.placement); got != x.want {
				t.Errorf("belongs: %v, want %v", got, x.want)
			}
		})
	}
}
