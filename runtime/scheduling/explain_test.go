package scheduling_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// explained schedules with explanations, as lines of text.
func explained(in scheduling.Input) []string {
	in.Explain = true
	var out []string
	for _, e := range scheduling.Schedule(in).Explanations {
		out = append(out, e.String())
	}
	return out
}

func mustExplain(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the explanations are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestExplainWhichTermsOfPredicatesFail(t *testing.T) {
	for name, x := range map[string]struct {
		predicates string
		want       string
	}{
		"a label":                      {`[{requiredClusterSelector: {labelSelector: {matchLabels: {env: prod}}}}]`, "predicates[0]: label env: want In [prod], have dev"},
		"a label that is missing":      {`[{requiredClusterSelector: {labelSelector: {matchLabels: {zone: x}}}}]`, "predicates[0]: label zone: want In [x], have none"},
		"several labels":               {`[{requiredClusterSelector: {labelSelector: {matchLabels: {zone: x}, matchExpressions: [{key: env, operator: In, values: [stage, prod]}]}}}]`, "predicates[0]: label env: want In [prod, stage], have dev, label zone: want In [x], have none"},
		"only those that fail":         {`[{requiredClusterSelector: {labelSelector: {matchLabels: {name: a, env: prod}}}}]`, "predicates[0]: label env: want In [prod], have dev"},
		"a value that must not be":     {`[{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: env, operator: NotIn, values: [dev]}]}}}]`, "predicates[0]: label env: want NotIn [dev], have dev"},
		"a label that must be":         {`[{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: zone, operator: Exists}]}}}]`, "predicates[0]: label zone: want any, have none"},
		"a label that must not be":     {`[{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: env, operator: DoesNotExist}]}}}]`, "predicates[0]: label env: want none, have dev"},
		"a claim":                      {`[{requiredClusterSelector: {claimSelector: {matchExpressions: [{key: platform, operator: In, values: [gcp]}]}}}]`, "predicates[0]: claim platform: want In [gcp], have aws"},
		"an expression":                {`[{requiredClusterSelector: {celSelector: {celExpressions: ["true", "1 == 2"]}}}]`, `predicates[0]: expression "1 == 2" is false`},
		"an expression that goes awry": {`[{requiredClusterSelector: {celSelector: {celExpressions: ["1 / 0 == 1"]}}}]`, `predicates[0]: expression "1 / 0 == 1" fails: division by zero`},
		"an expression of no truth":    {`[{requiredClusterSelector: {celSelector: {celExpressions: ["1"]}}}]`, `predicates[0]: expression "1" fails: expected bool result, got int64`},
		"scores of something else":     {`[{requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.metadata.scores('x').size() > 0"]}}}]`, `predicates[0]: expression "managedCluster.metadata.scores('x').size() > 0" fails: scores is a function of managedCluster, and takes the name of an AddOnPlacementScore`},
		"scores where there are none":  {`[{requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.scores('x').size() > 0"]}}}]`, `predicates[0]: expression "managedCluster.scores('x').size() > 0" fails: there are no AddOnPlacementScores here`},
		"every predicate":              {`[{requiredClusterSelector: {labelSelector: {matchLabels: {env: prod}}}}, {requiredClusterSelector: {celSelector: {celExpressions: ["false"]}}}]`, `predicates[0]: label env: want In [prod], have dev; predicates[1]: expression "false" is false`},
	} {
		t.Run(name, func(t *testing.T) {
			all := clusters("a")
			all[0].Labels["env"] = "dev"
			all[0].Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "platform", Value: "aws"}}
			mustExplain(t, explained(input(specOf(t, "predicates: "+x.predicates), all)), "a: filtered by Predicate: "+x.want)
		})
	}
}

func TestExplainMissingScores(t *testing.T) {
	in := input(predicates(expressing(`managedCluster.scores("cost").size() > 0`)), clusters("a"))
	in.Score = scoresOf("b/cost hourly=1")
	mustExplain(t, explained(in), `a: filtered by Predicate: predicates[0]: expression "managedCluster.scores(\"cost\").size() > 0" fails: the AddOnPlacementScore a/cost is not there`)
}

func TestExplainWhichTaintsAreNotTolerated(t *testing.T) {
	added := ptr.To(metav1.NewTime(now.Add(-time.Minute)))
	all := clusters("a")
	all[0].Spec.Taints = []clusterv1.Taint{
		{Key: "gpu", Value: "old", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: added},
		{Key: "new", Effect: clusterv1.TaintEffectNoSelectIfNew, TimeAdded: added},
		{Key: "fine", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: added},
		{Key: "wish", Effect: clusterv1.TaintEffectPreferNoSelect, TimeAdded: added},
	}
	spec := clusterv1beta1.PlacementSpec{Tolerations: []clusterv1beta1.Toleration{
		{Key: "fine", Operator: clusterv1beta1.TolerationOpExists},
		{Key: "gpu", Operator: clusterv1beta1.TolerationOpExists, TolerationSeconds: ptr.To[int64](30)},
		{Key: "gpu", Operator: clusterv1beta1.TolerationOpExists, TolerationSeconds: ptr.To[int64](10)},
	}}
	mustExplain(t, explained(input(spec, all)),
		"a: filtered by TaintToleration: untolerated taint gpu=old:NoSelect, tolerated until 2026-01-01T11:59:30Z; untolerated taint new:NoSelectIfNew")
}

func TestExplainWhereTheCutFalls(t *testing.T) {
	all := clusters("a", "b", "c", "d")
	all[3].Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectNoSelect}}
	all[0].Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectPreferNoSelect}}
	in := input(clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To[int32](1)}, all)
	in.Selected = map[string]bool{"c": true}
	mustExplain(t, explained(in),
		"c: selected: rank 1 of 3, 1 asked for; score 200 = 1×Balance 100 + 1×Steady 100",
		"a: not selected: rank 2 of 3, 1 asked for; score 100 = 1×Balance 100 + 1×Steady 0",
		"b: not selected: rank 3 of 3, 1 asked for; score 100 = 1×Balance 100 + 1×Steady 0",
		"d: filtered by TaintToleration: untolerated taint x:NoSelect",
	)
	in.Placement.Spec.NumberOfClusters = nil
	in.Placement.Spec.PrioritizerPolicy.Mode = clusterv1beta1.PrioritizerPolicyModeExact
	in.Options.PreferNoSelect = true
	mustExplain(t, explained(in),
		"b: selected: rank 1 of 3, all asked for; score 0",
		"c: selected: rank 2 of 3, all asked for; score 0",
		"a: selected: rank 3 of 3, all asked for; after all without an untolerated taint: x:PreferNoSelect; score 0",
		"d: filtered by TaintToleration: untolerated taint x:NoSelect",
	)
}

func TestExplainTheSpread(t *testing.T) {
	const spec = `{numberOfClusters: %, prioritizerPolicy: {mode: Exact}, spreadPolicy: {spreadConstraints: [{topologyKey: region, topologyKeyType: Label, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}}`
	with := func(n string) []string {
		return explained(input(specOf(t, strings.Replace(spec, "%", n, 1)), regions("eu:a,b,c,d us:x,y :e")))
	}
	mustExplain(t, with("2"),
		"a: selected: rank 1 of 7, 2 asked for; score 0",
		"b: not selected: rank 2 of 7, 2 asked for; others spread better; score 0",
		"c: not selected: rank 3 of 7, 2 asked for; others spread better; score 0",
		"d: not selected: rank 4 of 7, 2 asked for; others spread better; score 0",
		"e: not selected: rank 5 of 7, 2 asked for; others spread better; score 0",
		"x: selected: rank 6 of 7, 2 asked for; score 0",
		"y: not selected: rank 7 of 7, 2 asked for; score 0",
	)
	mustExplain(t, with("6"),
		"a: selected: rank 1 of 7, 6 asked for; score 0",
		"b: selected: rank 2 of 7, 6 asked for; score 0",
		"c: selected: rank 3 of 7, 6 asked for; score 0",
		`d: not selected: rank 4 of 7, 6 asked for; one more with the value "eu" would break the spread over label region (maxSkew 1); score 0`,
		"e: not selected: rank 5 of 7, 6 asked for; no value to spread over label region (maxSkew 1); score 0",
		"x: selected: rank 6 of 7, 6 asked for; score 0",
		"y: selected: rank 7 of 7, 6 asked for; score 0",
	)
}

func TestExplainAMisconfiguration(t *testing.T) {
	for name, x := range map[string]struct{ spec, want string }{
		"of a filter": {`{tolerations: [{operator: Equal}]}`, ": filtered by TaintToleration: the placement is misconfigured: If the key is empty, operator must be Exists."},
		"of another":  {`{prioritizerPolicy: {mode: X}}`, ": not selected: the placement is misconfigured: incorrect prioritizer policy mode: X"},
	} {
		t.Run(name, func(t *testing.T) {
			mustExplain(t, explained(input(specOf(t, x.spec), clusters("b", "a"))), "a"+x.want, "b"+x.want)
		})
	}
}

func TestExplanationsAsJSON(t *testing.T) {
	all := clusters("a", "b")
	all[1].Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectNoSelect}}
	in := input(clusterv1beta1.PlacementSpec{PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{
		Mode: clusterv1beta1.PrioritizerPolicyModeExact, Configurations: []clusterv1beta1.PrioritizerConfig{coordinate("Balance", -2)},
	}}, all)
	in.Explain = true
	got, err := json.Marshal(scheduling.Schedule(in).Explanations)
	want := `[{"clusterName":"a","selected":true,"rank":1,"score":-200,"scores":[{"name":"Balance","weight":-2,"score":100}],"reasons":["rank 1 of 1, all asked for"]},` +
		`{"clusterName":"b","selected":false,"filter":"TaintToleration","score":0,"reasons":["untolerated taint x:NoSelect"]}]`
	if err != nil || string(got) != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
}

func TestNothingIsExplainedUnasked(t *testing.T) {
	if got := scheduling.Schedule(input(clusterv1beta1.PlacementSpec{}, clusters("a"))).Explanations; got != nil {
		t.Errorf("got %v", got)
	}
}
