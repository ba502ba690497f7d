package scheduling_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// golden is one rule of Open Cluster Management's scheduling, under the rule as
// its name. What is empty of the expectations is not looked at, but for groups.
type golden struct {
	spec  string // YAML
	fleet string // YAML; taints without a time are a minute old
	// selected are the clusters in the present decisions, elsewhere those in the
	// decisions of other placements.
	selected  string
	elsewhere map[string]int
	scores    []string      // as for scoresOf
	validFor  time.Duration // of the scores, when not 0
	change    func(*scheduling.Input)

	groups        string // "name:a,b name:c"
	misconfigured string // status/reason/message
	satisfied     string // status/reason/message
	total         string // "a=1 b=2"
	filters       string // "name:a,b name:c"
	requeue       time.Duration
	warning       string
	decisions     string // "name[group index] …"
}

const (
	configured   = "False/Succeedconfigured/Placement configurations check pass"
	allScheduled = "True/AllDecisionsScheduled/All cluster decisions scheduled"
	noneMatched  = "False/NoManagedClusterMatched/No ManagedCluster matches any of the cluster predicate"
)

func (g golden) input(t *testing.T) scheduling.Input {
	in := input(specOf(t, g.spec), fleetOf(t, g.fleet))
	for _, c := range in.Clusters {
		for i := range c.Spec.Taints {
			if c.Spec.Taints[i].TimeAdded == nil {
				c.Spec.Taints[i].TimeAdded = ptr.To(metav1.NewTime(now.Add(-time.Minute)))
			}
		}
	}
	in.Selected, in.Elsewhere = map[string]bool{}, g.elsewhere
	for name := range strings.FieldsSeq(g.selected) {
		in.Selected[name] = true
	}
	all := scoresOf(g.scores...)
	in.Score = func(clusterName, resourceName string) *clusterv1alpha1.AddOnPlacementScore {
		s := all(clusterName, resourceName)
		if s != nil && g.validFor != 0 {
			s.Status.ValidUntil = ptr.To(metav1.NewTime(now.Add(g.validFor)))
		}
		return s
	}
	if g.change != nil {
		g.change(&in)
	}
	return in
}

func (g golden) check(t *testing.T) {
	r := scheduling.Schedule(g.input(t))
	var totals, filters, decisions []string
	for _, name := range slices.Sorted(maps.Keys(r.Total)) {
		totals = append(totals, fmt.Sprintf("%s=%d", name, r.Total[name]))
	}
	for _, f := range r.Filters {
		filters = append(filters, f.Name+":"+strings.Join(slices.Sorted(slices.Values(f.Clusters)), ","))
	}
	for _, d := range scheduling.Decisions("p", r.Groups) {
		decisions = append(decisions, fmt.Sprintf("%s[%s %s]", d.Name,
			d.Labels["cluster.open-cluster-management.io/decision-group-name"], d.Labels["cluster.open-cluster-management.io/decision-group-index"]))
	}
	condition := func(i int, kind string) string {
		if r.Conditions[i].Type != kind {
			t.Errorf("condition %d is %s, want %s", i, r.Conditions[i].Type, kind)
		}
		return fmt.Sprintf("%s/%s/%s", r.Conditions[i].Status, r.Conditions[i].Reason, r.Conditions[i].Message)
	}
	warning := ""
	if r.Warning != nil {
		warning = r.Warning.String()
	}
	must := func(what, got, want string, always bool) {
		if (always || want != "") && got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	must("groups", inGroups(r), g.groups, true)
	must("PlacementMisconfigured", condition(0, "PlacementMisconfigured"), g.misconfigured, false)
	must("PlacementSatisfied", condition(1, "PlacementSatisfied"), g.satisfied, false)
	must("totals", strings.Join(totals, " "), g.total, false)
	must("filters", strings.Join(filters, " "), g.filters, false)
	must("warning", warning, g.warning, true)
	must("decisions", strings.Join(decisions, " "), g.decisions, false)
	if r.RequeueAfter != g.requeue {
		t.Errorf("the timer is for %s, want %s", r.RequeueAfter, g.requeue)
	}
}

func checkAll(t *testing.T, all map[string]golden) {
	for rule, g := range all {
		t.Run(rule, g.check)
	}
}

// selector is a predicate by labels, claims or expressions.
func selector(text string) string { return "{requiredClusterSelector: {" + text + "}}" }

func TestGoldenPipeline(t *testing.T) {
	unavailable := `{a: {metadata: {labels: {}}, spec: {hubAcceptsClient: false}}, b: {status: {conditions: [{type: ManagedClusterConditionAvailable, status: "False", reason: r, message: m, lastTransitionTime: null}]}}}`
	none := func(in *scheduling.Input) { in.Clusters = nil }
	checkAll(t, map[string]golden{
		"acceptance and availability are not looked at": {fleet: unavailable, groups: ":a,b", satisfied: allScheduled},
		"the predicates go before the taints":           {spec: "predicates: [" + selector("labelSelector: {matchLabels: {x: y}}") + "]", fleet: `{a: {metadata: {labels: {x: y}}, spec: {taints: [{key: k, effect: NoSelect}]}}, b: {}}`, groups: ":", filters: "Predicate:a Predicate,TaintToleration:"},
		"scores go down, names up":                      {spec: "numberOfClusters: 3", fleet: "{a: {}, b: {}, c: {}, d: {}}", selected: "d", groups: ":a,b,d"},
		"no number of clusters takes all":               {fleet: "{a: {}, b: {}}", groups: ":a,b"},
		"a number of 0 is taken literally":              {spec: "numberOfClusters: 0", fleet: "{a: {}}", groups: ":", satisfied: noneMatched},
		"a misconfiguration leaves one empty decision":  {spec: "tolerations: [{key: ''}]", fleet: "{a: {}}", selected: "a", groups: ":", decisions: "p-decision-1[ 0]"},
		"an expired score does not":                     {spec: byCost, fleet: "{a: {}}", scores: []string{"a/cost hourly=50"}, validFor: -1, groups: ":a", warning: "AddOn/cost/hourly:AddOnPlacementScores a/cost expired", misconfigured: configured, satisfied: allScheduled},
		"no cluster set has a cluster":                  {fleet: "{a: {}}", change: none, groups: ":", filters: "Predicate: Predicate,TaintToleration:"},
	})
}

const byCost = `prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {type: AddOn, addOn: {resourceName: cost, scoreName: hourly}}}]}`

func TestGoldenPredicates(t *testing.T) {
	fleet := `{a: {metadata: {labels: {env: prod}}, status: {clusterClaims: [{name: platform, value: aws}]}}, b: {metadata: {labels: {env: prod}}, status: {clusterClaims: [{name: platform, value: gcp}]}}, c: {metadata: {labels: {env: dev}}}}`
	with := func(predicates ...string) string { return "predicates: [" + strings.Join(predicates, ", ") + "]" }
	claim := func(text string) string { return "claimSelector: {matchExpressions: [" + text + "]}" }
	prod, aws := "labelSelector: {matchLabels: {env: prod}}", claim("{key: platform, operator: In, values: [aws]}")
	failing := func(expression string) string {
		return with(selector(`celSelector: {celExpressions: ['` + expression + `']}`))
	}
	checkAll(t, map[string]golden{
		"no predicate keeps all":                       {fleet: fleet, groups: ":a,b,c", filters: "Predicate:a,b,c Predicate,TaintToleration:a,b,c"},
		"predicates are ORed":                          {spec: with(selector(aws), selector("labelSelector: {matchLabels: {env: dev}}")), fleet: fleet, groups: ":a,c"},
		"labels and claims are ANDed":                  {spec: with(selector(prod + ", " + aws)), fleet: fleet, groups: ":a"},
		"labels, claims and expressions are ANDed":     {spec: with(selector(prod + ", " + claim("{key: platform, operator: Exists}") + `, celSelector: {celExpressions: ['managedCluster.metadata.name > "a"']}`)), fleet: fleet, groups: ":b"},
		"expressions are ANDed":                        {spec: with(selector(`celSelector: {celExpressions: ['managedCluster.metadata.name < "c"', 'managedCluster.metadata.name > "a"']}`)), fleet: fleet, groups: ":b"},
		"claims match by value":                        {spec: with(selector(claim("{key: platform, operator: In, values: [aws, gcp]}"))), fleet: fleet, groups: ":a,b"},
		"DoesNotExist matches without the claim":       {spec: with(selector(claim("{key: platform, operator: DoesNotExist}"))), fleet: fleet, groups: ":c"},
		"NotIn matches without the claim":              {spec: with(selector(claim("{key: platform, operator: NotIn, values: [aws]}"))), fleet: fleet, groups: ":b,c"},
		"a bad label selector is a misconfiguration":   {spec: with(selector("labelSelector: {matchExpressions: [{key: env, operator: Like}]}")), fleet: fleet, groups: ":", misconfigured: `True/Misconfigured/Predicate:"Like" is not a valid label selector operator`, satisfied: noneMatched},
		"a bad claim selector is a misconfiguration":   {spec: with(selector(claim("{key: env, operator: Like}"))), fleet: fleet, groups: ":", misconfigured: `True/Misconfigured/Predicate:"Like" is not a valid label selector operator`, satisfied: noneMatched},
		"a bad selector after a good predicate is one": {spec: with(selector(""), selector(claim("{key: env, operator: Like}"))), fleet: fleet, groups: ":", misconfigured: `True/Misconfigured/Predicate:"Like" is not a valid label selector operator`},
		"a runtime error is none":                      {spec: failing("1 / 0 == 1"), fleet: fleet, groups: ":", misconfigured: configured, satisfied: noneMatched},
		"a result that is not a bool is none":          {spec: failing("1 + 1"), fleet: fleet, groups: ":", misconfigured: configured, satisfied: noneMatched},
		"a bad selector without clusters is none":      {spec: with(selector(claim("{key: env, operator: Like}"))), fleet: "{}", groups: ":", misconfigured: configured},
	})
}

func TestGoldenTaints(t *testing.T) {
	one := func(taint string) string { return "{a: {spec: {taints: [{key: k, value: v, " + taint + "}]}}}" }
	noSelect, ifNew := one("effect: NoSelect"), one("effect: NoSelectIfNew")
	misconfigured := func(message string) string { return "True/Misconfigured/TaintToleration:" + message }
	tolerating := func(text string) string { return "tolerations: [" + text + "]" }
	for _, c := range []struct {
		rule, toleration string
		want             bool
	}{
		{"an empty effect matches all", "{key: k, operator: Exists}", true},
		{"an equal effect matches", "{key: k, operator: Exists, effect: NoSelect}", true},
		{"another effect does not", "{key: k, operator: Exists, effect: NoSelectIfNew}", false},
		{"an empty key matches all", "{operator: Exists}", true},
		{"another key does not", "{key: x, operator: Exists}", false},
		{"without an operator the values must be equal", "{key: k, value: v}", true},
		{"Equal needs equal values", "{key: k, operator: Equal, value: v}", true},
		{"Equal takes no other value", "{key: k, operator: Equal, value: x}", false},
		{"Exists takes any value", "{key: k, operator: Exists}", true},
		{"an unknown operator matches nothing", "{key: k, operator: Like, value: v}", false},
		{"no seconds is for ever", "{key: k, operator: Exists}", true},
		{"before timeAdded and the seconds", "{key: k, operator: Exists, tolerationSeconds: 61}", true},
		{"not at timeAdded and the seconds", "{key: k, operator: Exists, tolerationSeconds: 60}", false},
		{"0 seconds have expired", "{key: k, operator: Exists, tolerationSeconds: 0}", false},
		{"negative seconds have expired", "{key: k, operator: Exists, tolerationSeconds: -5}", false},
		{"the next one is tried after an expired one", "{key: k, operator: Exists, tolerationSeconds: 1}, {key: k, operator: Exists}", true},
	} {
		g := golden{spec: tolerating(c.toleration), fleet: noSelect, groups: ":"}
		if c.want {
			g.groups = ":a"
		}
		t.Run(c.rule, g.check)
	}
	checkAll(t, map[string]golden{
		"PreferNoSelect is tolerated, without a penalty":      {fleet: `{a: {spec: {taints: [{key: k, effect: PreferNoSelect}]}}, b: {}}`, spec: "numberOfClusters: 1", groups: ":a", total: "a=100 b=100"},
		"NoSelectIfNew is tolerated by a chosen cluster":      {fleet: ifNew, selected: "a", groups: ":a"},
		"NoSelectIfNew keeps a new cluster out":               {fleet: ifNew, groups: ":"},
		"NoSelectIfNew can be tolerated by a new one":         {fleet: ifNew, spec: tolerating("{key: k, operator: Exists}"), groups: ":a"},
		"NoSelect without toleration leaves at once":          {fleet: noSelect, selected: "a", groups: ":", satisfied: noneMatched},
		"all taints must be tolerated":                        {fleet: `{a: {spec: {taints: [{key: k, effect: NoSelect}, {key: l, effect: NoSelect}]}}}`, spec: tolerating("{key: k, operator: Exists}"), groups: ":"},
		"the first that matches decides on the timer":         {fleet: noSelect, selected: "a", spec: tolerating("{key: k, operator: Exists, tolerationSeconds: 90}, {key: k, operator: Exists}"), groups: ":a", requeue: 30 * time.Second},
		"the timer is for those that were chosen":             {fleet: noSelect, spec: tolerating("{key: k, operator: Exists, tolerationSeconds: 90}"), groups: ":a"},
		"it is for the least time of all":                     {fleet: `{a: {spec: {taints: [{key: k, effect: NoSelect}]}}, b: {spec: {taints: [{key: l, effect: NoSelect}]}}}`, selected: "a b", spec: tolerating("{key: k, operator: Exists, tolerationSeconds: 90}, {key: l, operator: Exists, tolerationSeconds: 75}"), groups: ":a,b", requeue: 15 * time.Second},
		"an empty key needs Exists":                           {fleet: "{a: {}}", spec: tolerating("{operator: Equal, value: v}"), groups: ":", misconfigured: misconfigured("If the key is empty, operator must be Exists."), satisfied: noneMatched},
		"an empty key and operator do, too":                   {fleet: "{a: {}}", spec: tolerating("{value: v}"), groups: ":", misconfigured: misconfigured("If the key is empty, operator must be Exists.")},
		"Exists needs an empty value":                         {fleet: "{a: {}}", spec: tolerating("{key: k, operator: Exists, value: v}"), groups: ":", misconfigured: misconfigured("If the operator is Exists, the value should be empty."), satisfied: noneMatched},
		"tolerations are not checked when no cluster is left": {fleet: "{a: {}}", spec: "predicates: [" + selector("labelSelector: {matchLabels: {x: y}}") + "]\n" + tolerating("{operator: Equal}"), groups: ":", misconfigured: configured},
	})
}
