package scheduling_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

func expressing(expressions ...string) clusterv1beta1.ClusterPredicate {
	return clusterv1beta1.ClusterPredicate{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
		CELSelector: clusterv1beta1.ClusterCELSelector{CELExpressions: expressions},
	}}
}

func predicates(p ...clusterv1beta1.ClusterPredicate) clusterv1beta1.PlacementSpec {
	return clusterv1beta1.PlacementSpec{Predicates: p}
}

const described = `
a:
  metadata: {labels: {env: prod, version: v1.30.2}, annotations: {shape: '{"cpu": 4, "zones": ["x", "y"]}'}}
  spec: {hubAcceptsClient: true, leaseDurationSeconds: 60, taints: [{key: k, effect: PreferNoSelect}]}
  status:
    version: {kubernetes: v1.30.2}
    allocatable: {cpu: "1500m", memory: 16Gi}
    clusterClaims: [{name: platform, value: aws}]
    conditions: [{type: ManagedClusterConditionAvailable, status: "True", reason: r, message: "", lastTransitionTime: null}]
`

func TestExpressionsSeeTheClusterAsItsJSON(t *testing.T) {
	for name, x := range map[string]struct {
		expression string
		want       bool
	}{
		"the name":                         {`managedCluster.metadata.name == "a"`, true},
		"labels":                           {`managedCluster.metadata.labels["env"] in ["prod", "stage"]`, true},
		"a label that is not there":        {`managedCluster.metadata.labels["zone"] == "x"`, false},
		"whether a label is there":         {`has(managedCluster.metadata.labels.zone)`, false},
		"the specification":                {`managedCluster.spec.hubAcceptsClient && managedCluster.spec.leaseDurationSeconds == 60`, true},
		"taints":                           {`managedCluster.spec.taints.exists(t, t.effect == "PreferNoSelect")`, true},
		"claims":                           {`managedCluster.status.clusterClaims.exists(c, c.name == "platform" && c.value == "aws")`, true},
		"conditions":                       {`managedCluster.status.conditions.exists(c, c.type == "ManagedClusterConditionAvailable" && c.status == "True")`, true},
		"no Go names":                      {`has(managedCluster.ObjectMeta)`, false},
		"JSON in a text":                   {`managedCluster.metadata.annotations["shape"].parseJSON().cpu == 4`, true},
		"JSON with a list":                 {`"y" in managedCluster.metadata.annotations["shape"].parseJSON().zones`, true},
		"no JSON in a text":                {`managedCluster.metadata.name.parseJSON() == 1 || true`, true},
		"no JSON in a text, alone":         {`managedCluster.metadata.name.parseJSON() == 1`, false},
		"optional values":                  {`managedCluster.?metadata.?labels.?zone.orValue("none") == "none"`, true},
		"strings":                          {`"A".lowerAscii() == "a" && "a-b".split("-").size() == 2`, true},
		"lists":                            {`[1, 2, 3].sum() == 6 && [1, 2].isSorted()`, true},
		"regular expressions":              {`"cluster-17".find("[0-9]+") == "17"`, true},
		"URLs":                             {`url("https://h:6443/x").getHostname() == "h"`, true},
		"quantities":                       {`quantity(managedCluster.status.allocatable.cpu).isLessThan(quantity("2")) && quantity(managedCluster.status.allocatable.memory).isGreaterThan(quantity("8Gi"))`, true},
		"IP addresses":                     {`ip("10.1.2.3").family() == 4`, true},
		"CIDRs":                            {`cidr("10.0.0.0/8").containsIP("10.1.2.3")`, true},
		"formats":                          {`!format.dns1123Label().validate("a-b").hasValue()`, true},
		"versions":                         {`semver(managedCluster.status.version.kubernetes, true).isGreaterThan(semver("1.29.0"))`, true},
		"a failure is not a match":         {`managedCluster.status.nothing == 1`, false},
		"another result is not a match":    {`"true"`, false},
		"an unknown result is not a match": {`managedCluster.metadata.name`, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := scheduling.Schedule(input(predicates(expressing(x.expression)), fleetOf(t, described)))
			if got := r.Selected == 1; got != x.want {
				t.Errorf("%s matches: %v, want %v (%s)", x.expression, got, x.want, r.Conditions[0].Message)
			}
			if r.Conditions[0].Status != metav1.ConditionFalse {
				t.Errorf("it counts as misconfigured: %s", r.Conditions[0].Message)
			}
		})
	}
}

func TestExpressionsReadScores(t *testing.T) {
	for name, x := range map[string]struct {
		expression string
		want       string
	}{
		"by name and value":                        {`managedCluster.scores("cost").filter(s, s.name == "hourly").all(s, s.value < 20)`, "a"},
		"with nothing else":                        {`managedCluster.scores("cost").all(s, s.size() == 2 && !has(s.quantity))`, "a b"},
		"a missing one fails":                      {`managedCluster.scores("cost").size() >= 0`, "a b"},
		"a failure that does not matter":           {`managedCluster.scores("cost").size() == 2 || managedCluster.metadata.name == "c"`, "a c"},
		"of the cluster, wherever it is passed on": {`[managedCluster].all(c, c.scores("cost").size() == 2)`, "a"},
		"of nothing else":                          {`managedCluster.metadata.scores("cost").size() >= 0`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(predicates(expressing(x.expression)), clusters("a", "b", "c"))
			in.Score = scoresOf("a/cost hourly=10 daily=12", "b/cost hourly=30")
			if got := strings.Join(chosen(scheduling.Schedule(in)), " "); got != x.want {
				t.Errorf("chose %q, want %q", got, x.want)
			}
		})
	}
}

func TestWithoutScoresTheirFunctionFails(t *testing.T) {
	mustChoose(t, scheduling.Schedule(input(predicates(expressing(`managedCluster.scores("cost").size() == 0`)), clusters("a"))))
}

// costing is an expression that holds and, with 20 elements, costs some 45,000 of
// the 100,000 that all about a cluster may. How long its outer loop is only its
// evaluation reports.
func costing(elements int) string {
	list := "[" + strings.TrimSuffix(strings.Repeat("0,", elements), ",") + "]"
	return fmt.Sprintf("lists.range(%d).all(a, %s.all(b, %s.all(c, c == 0)))", elements, list, list)
}

func TestWhatExpressionsMayCost(t *testing.T) {
	dear, tooDear := costing(20), costing(40)
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("%s && %d >= 0", dear, i))
	}
	for name, x := range map[string]struct {
		spec clusterv1beta1.PlacementSpec
		want []string
	}{
		"a dear one":                     {predicates(expressing(dear)), []string{"a"}},
		"one that is too dear":           {predicates(expressing(tooDear)), nil},
		"several dear ones":              {predicates(expressing(many[:2]...)), []string{"a"}},
		"too many for a predicate":       {predicates(expressing(many[:3]...)), nil},
		"the predicates share":           {predicates(expressing(many[0], "false"), expressing(many[:2]...)), nil},
		"each cluster starts afresh":     {predicates(expressing(many[:2]...)), []string{"a", "b"}},
		"another predicate is tried yet": {predicates(expressing(tooDear), labelled("name", "a")), []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			all := clusters("a")
			if len(x.want) == 2 {
				all = clusters("a", "b")
			}
			r := scheduling.Schedule(input(x.spec, all))
			mustChoose(t, r, x.want...)
			if r.Conditions[0].Status != metav1.ConditionFalse {
				t.Errorf("it counts as misconfigured: %s", r.Conditions[0].Message)
			}
			if reported := strings.Contains(r.Conditions[1].Message, "; on 1 clusters, a the first, the expression \"lists.range("); reported != (x.want == nil) && name != "another predicate is tried yet" {
				t.Errorf("the condition says: %s", r.Conditions[1].Message)
			}
		})
	}
}

func TestExpressionsAreEvaluatedInOrderUpToTheFirstThatFails(t *testing.T) {
	for name, x := range map[string]struct {
		predicate clusterv1beta1.ClusterPredicate
		want      string
	}{
		"all that hold":           {expressing(`managedCluster.scores("1").size() == 0`, `managedCluster.scores("2").size() == 0`), "12"},
		"none after a false one":  {expressing(`managedCluster.scores("1").size() == 0`, "false", `managedCluster.scores("2").size() == 0`), "1"},
		"none after a failed one": {expressing(`managedCluster.scores("1").size() == 0`, "1 / 0 == 1", `managedCluster.scores("2").size() == 0`), "1"},
		"none when the labels differ": {clusterv1beta1.ClusterPredicate{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
			LabelSelector: labelled("name", "x").RequiredClusterSelector.LabelSelector,
			CELSelector:   expressing(`managedCluster.scores("1").size() == 0`).RequiredClusterSelector.CELSelector,
		}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var read string
			in := input(predicates(x.predicate), clusters("a"))
			in.Score = func(_, name string) *clusterv1alpha1.AddOnPlacementScore {
				read += name
				return &clusterv1alpha1.AddOnPlacementScore{}
			}
			scheduling.Schedule(in)
			if read != x.want {
				t.Errorf("read the scores %q, want %q", read, x.want)
			}
		})
	}
}

func TestAnExpressionThatCannotBeCompiledIsReportedWhenThereAreClusters(t *testing.T) {
	spec := predicates(labelled("name", "a"), expressing("managedCluster.metadata.name = 1"))
	r := scheduling.Schedule(input(spec, clusters("a")))
	mustChoose(t, r)
	if got := r.Conditions[0]; got.Status != metav1.ConditionTrue || got.Reason != "Misconfigured" || !strings.HasPrefix(got.Message, "Predicate:compilation failed: ") {
		t.Errorf("the condition is %s/%s %q", got.Status, got.Reason, got.Message)
	}
	if got := scheduling.Schedule(input(spec, nil)).Conditions[0]; got.Status != metav1.ConditionFalse {
		t.Errorf("without clusters the condition is %s %q", got.Status, got.Message)
	}
}

func TestExpressionsWithLabelsAndClaimsMustAllHold(t *testing.T) {
	all := clusters("a", "b", "c")
	for _, c := range all[:2] {
		c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "platform", Value: "aws"}}
		c.Labels["env"] = "prod"
	}
	all[2].Labels["env"] = "prod"
	p := labelled("env", "prod")
	p.RequiredClusterSelector.ClaimSelector = claiming(metav1.LabelSelectorOpIn, "platform", "aws").RequiredClusterSelector.ClaimSelector
	p.RequiredClusterSelector.CELSelector.CELExpressions = []string{`managedCluster.metadata.name != "b"`}
	mustChoose(t, scheduling.Schedule(input(predicates(p), all)), "a")
}

func TestExpressionsMayBeSharedByManyAtOnce(t *testing.T) {
	o := scheduling.Options{Expressions: scheduling.NewExpressions()}
	all := clusters("a", "b")
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			in := input(predicates(expressing(fmt.Sprintf(`managedCluster.metadata.name == "a" && %d >= 0`, i%3))), all)
			in.Options = o
			mustChoose(t, scheduling.Schedule(in), "a")
		})
	}
}

func TestAViewMayBeSharedByManyAtOnce(t *testing.T) {
	p := labelled("env", "prod")
	p.RequiredClusterSelector.ClaimSelector = claiming(metav1.LabelSelectorOpExists, "platform").RequiredClusterSelector.ClaimSelector
	p.RequiredClusterSelector.CELSelector.CELExpressions = []string{`managedCluster.spec.hubAcceptsClient`}
	c := scheduling.Compile(&clusterv1beta1.Placement{Spec: predicates(p)}, scheduling.Options{})
	v := scheduling.NewView(fleetOf(t, described)[0])
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			if !c.Matches(v, nil) {
				t.Error("the cluster does not match")
			}
		})
	}
}

func BenchmarkExpressions(b *testing.B) {
	c := scheduling.Compile(&clusterv1beta1.Placement{Spec: predicates(expressing(`managedCluster.metadata.labels["env"] == "prod"`, `managedCluster.status.clusterClaims.exists(c, c.name == "platform")`))}, scheduling.Options{})
	cluster := fleetOf(b, described)[0]
	b.Run("of a cluster that has changed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.Matches(scheduling.NewView(cluster), nil)
		}
	})
	b.Run("of one that another placement has looked at", func(b *testing.B) {
		v := scheduling.NewView(cluster)
		b.ReportAllocs()
		for b.Loop() {
			c.Matches(v, nil)
		}
	})
}
