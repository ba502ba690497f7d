package scheduling_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// policy is a prioritizer policy: "Exact Balance*2 AddOn/cost/hourly".
func policy(text string) string {
	mode, rest, _ := strings.Cut(text, " ")
	var configurations []string
	for name := range strings.FieldsSeq(rest) {
		name, weight, weighted := strings.Cut(name, "*")
		coordinate := "builtIn: " + name
		if parts := strings.Split(name, "/"); len(parts) == 3 {
			coordinate = fmt.Sprintf("type: AddOn, addOn: {resourceName: %s, scoreName: %s}", parts[1], parts[2])
		}
		c := "{scoreCoordinate: {" + coordinate + "}"
		if weighted {
			c += ", weight: " + weight
		}
		configurations = append(configurations, c+"}")
	}
	return fmt.Sprintf("prioritizerPolicy: {mode: %q, configurations: [%s]}", mode, strings.Join(configurations, ", "))
}

func TestGoldenPrioritizers(t *testing.T) {
	const two, three = "{a: {}, b: {}}", "{a: {}, b: {}, c: {}}"
	resources := func(list ...string) string { // "a cpu allocatable capacity"
		var out []string
		for _, line := range list {
			f := strings.Fields(line)
			c := fmt.Sprintf("%s: {status: {allocatable: {%s: %s}", f[0], f[1], f[2])
			if len(f) > 3 {
				c += fmt.Sprintf(", capacity: {%s: %s}", f[1], f[3])
			}
			out = append(out, c+"}}")
		}
		return "{" + strings.Join(out, ", ") + "}"
	}
	const cpu, memory = "Exact ResourceAllocatableCPU", "Exact ResourceAllocatableMemory"
	bad := func(message string) string { return "True/Misconfigured/:" + message }
	cost := []string{"a/cost hourly=-100 daily=7", "b/cost hourly=100"}
	checkAll(t, map[string]golden{
		"Balance and Steady count once by default":      {fleet: two, selected: "b", groups: ":a,b", total: "a=100 b=200"},
		"Additive does the same":                        {spec: policy("Additive"), fleet: two, selected: "b", groups: ":a,b", total: "a=100 b=200"},
		"Additive overrides a default's weight":         {spec: policy("Additive Steady*3"), fleet: two, selected: "b", groups: ":a,b", total: "a=100 b=400"},
		"Additive adds to the defaults":                 {spec: policy("Additive AddOn/cost/hourly"), fleet: two, scores: cost, groups: ":a,b", total: "a=0 b=200"},
		"Exact has only what is configured":             {spec: policy("Exact Steady"), fleet: two, selected: "b", groups: ":a,b", total: "a=0 b=100"},
		"Exact of nothing orders by name":               {spec: policy("Exact") + "\nnumberOfClusters: 1", fleet: two, selected: "b", groups: ":a", total: "a=0 b=0"},
		"another mode is a misconfiguration":            {spec: policy("Most"), fleet: two, groups: ":", misconfigured: bad("incorrect prioritizer policy mode: Most"), satisfied: noneMatched},
		"no coordinate is one":                          {spec: "prioritizerPolicy: {configurations: [{weight: 1}]}", fleet: two, groups: ":", misconfigured: bad("scoreCoordinate field is required")},
		"an unknown name is one":                        {spec: policy("Additive Luck"), fleet: two, groups: ":", misconfigured: bad("incorrect builtin prioritizer: Luck")},
		"no name is one":                                {spec: "prioritizerPolicy: {configurations: [{scoreCoordinate: {}}]}", fleet: two, groups: ":", misconfigured: bad("incorrect builtin prioritizer: ")},
		"AddOn without addOn is one":                    {spec: "prioritizerPolicy: {configurations: [{scoreCoordinate: {type: AddOn}}]}", fleet: two, groups: ":", misconfigured: bad("addOn should not be empty")},
		"any other type counts as an add-on's":          {spec: "prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {type: Other, addOn: {resourceName: cost, scoreName: hourly}}}]}", fleet: two, scores: cost, groups: ":a,b", total: "a=-100 b=100"},
		"a misconfigured policy shows without clusters": {spec: policy("Most"), fleet: "{}", groups: ":", misconfigured: bad("incorrect prioritizer policy mode: Most")},
		"a weight of 0 is not run":                      {spec: policy("Additive Balance*0"), fleet: two, selected: "a", groups: ":a,b", total: "a=100 b=0"},
		"a weight of 0 is not run, so warns of nothing": {spec: policy("Exact AddOn/cost/hourly*0"), fleet: two, scores: cost, validFor: -1, groups: ":a,b", total: "a=0 b=0"},
		"a negative weight multiplies":                  {spec: policy("Exact Steady*-10") + "\nnumberOfClusters: 1", fleet: two, selected: "a", groups: ":b", total: "a=-1000 b=0"},
		"the total is the weighted sum":                 {spec: policy("Exact Steady*2 AddOn/cost/hourly*3"), fleet: two, selected: "a", scores: cost, groups: ":a,b", total: "a=-100 b=300"},
		"no score adds nothing":                         {spec: policy("Exact Steady ResourceAllocatableCPU"), fleet: two, selected: "a", groups: ":a,b", total: "a=100 b=0"},

		"Balance starts at 100 for all":          {spec: policy("Exact Balance"), fleet: three, groups: ":a,b,c", total: "a=100 b=100 c=100"},
		"Balance of the greatest count is -100":  {spec: policy("Exact Balance"), fleet: two, elsewhere: map[string]int{"a": 7}, groups: ":a,b", total: "a=-100 b=100"},
		"Balance of half the greatest is 0":      {spec: policy("Exact Balance"), fleet: three, elsewhere: map[string]int{"a": 2, "b": 4}, groups: ":a,b,c", total: "a=0 b=-100 c=100"},
		"Balance truncates before it doubles":    {spec: policy("Exact Balance"), fleet: three, elsewhere: map[string]int{"a": 1, "b": 2, "c": 3}, groups: ":a,b,c", total: "a=32 b=-32 c=-100"},
		"Balance is even":                        {spec: policy("Exact Balance"), fleet: three, elsewhere: map[string]int{"a": 1, "b": 5, "c": 8}, groups: ":a,b,c", total: "a=74 b=-24 c=-100"},
		"Balance counts clusters out of reach":   {spec: policy("Exact Balance"), fleet: "{a: {}}", elsewhere: map[string]int{"a": 1, "elsewhere": 4}, groups: ":a", total: "a=50"},
		"Steady is 100 for the chosen, 0 for no": {spec: policy("Exact Steady"), fleet: two, selected: "a", groups: ":a,b", total: "a=100 b=0"},

		"the most allocatable has 100, the least -100": {spec: policy(cpu), fleet: resources("a cpu 1 9", "b cpu 3 9"), groups: ":a,b", total: "a=-100 b=100"},
		"what is between is truncated":                 {spec: policy(cpu), fleet: resources("a cpu 0 9", "b cpu 1 9", "c cpu 3 9"), groups: ":a,b,c", total: "a=-100 b=-33 c=100"},
		"towards zero, above it as well":               {spec: policy(cpu), fleet: resources("a cpu 0 9", "b cpu 2 9", "c cpu 3 9"), groups: ":a,b,c", total: "a=-100 b=33 c=100"},
		"all alike have 100":                           {spec: policy(memory), fleet: resources("a memory 1Gi 2Gi", "b memory 1024Mi 4Gi"), groups: ":a,b", total: "a=100 b=100"},
		"no score without capacity":                    {spec: policy(memory), fleet: resources("a memory 1Gi", "b memory 2Gi 2Gi", "c memory 4Gi 4Gi"), groups: ":a,b,c", total: "a=0 b=-100 c=100"},
		"nor of another resource":                      {spec: policy(memory), fleet: resources("a cpu 1 1", "b memory 2Gi 2Gi"), groups: ":a,b", total: "a=0 b=100"},
		"fractions of a CPU count":                     {spec: policy(cpu), fleet: resources("a cpu 500m 1", "b cpu 1 1", "c cpu 1500m 2"), groups: ":a,b,c", total: "a=-100 b=0 c=100"},
		"only candidates are compared":                 {spec: policy(cpu) + "\npredicates: [" + selector("labelSelector: {matchExpressions: [{key: out, operator: DoesNotExist}]}") + "]", fleet: "{a: {status: {allocatable: {cpu: 1}, capacity: {cpu: 8}}}, b: {status: {allocatable: {cpu: 2}, capacity: {cpu: 8}}}, c: {metadata: {labels: {out: x}}, status: {allocatable: {cpu: 8}, capacity: {cpu: 8}}}}", groups: ":a,b", total: "a=-100 b=100"},

		"an add-on's score is taken as is":       {spec: policy("Exact AddOn/cost/hourly"), fleet: two, scores: cost, groups: ":a,b", total: "a=-100 b=100"},
		"a missing object is 0":                  {spec: policy("Exact AddOn/price/hourly"), fleet: two, scores: cost, groups: ":a,b", total: "a=0 b=0"},
		"a missing item is 0":                    {spec: policy("Exact AddOn/cost/daily"), fleet: two, scores: cost, groups: ":a,b", total: "a=7 b=0"},
		"an expired one is 0, with a warning":    {spec: policy("Exact AddOn/cost/hourly"), fleet: "{a: {}}", scores: cost, validFor: -time.Second, groups: ":a", total: "a=0", warning: "AddOn/cost/hourly:AddOnPlacementScores a/cost expired", misconfigured: configured},
		"only the first of several is warned of": {spec: policy("Exact AddOn/cost/hourly AddOn/cost/daily"), fleet: "{a: {}}", scores: cost, validFor: -time.Second, groups: ":a", total: "a=0", warning: "AddOn/cost/hourly:AddOnPlacementScores a/cost expired"},
		"one that will expire counts till then":  {spec: policy("Exact AddOn/cost/hourly"), fleet: "{b: {}}", scores: cost, validFor: time.Minute, groups: ":b", total: "b=100", requeue: time.Minute + 1},
	})
}

func TestGoldenGroups(t *testing.T) {
	const four = "{a: {metadata: {labels: {x: y}}}, b: {}, c: {metadata: {labels: {x: y}}}, d: {}}"
	size := func(s string) string {
		return "decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: " + s + "}}"
	}
	xs := "{groupName: xs, groupClusterSelector: {labelSelector: {matchLabels: {x: y}}}}"
	named := func(s, groups string) string {
		return "decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: " + s + ", decisionGroups: [" + groups + "]}}"
	}
	bad := func(message string) string { return "True/Misconfigured/:" + message }
	checkAll(t, map[string]golden{
		"a size is a number":                         {spec: size("3"), fleet: four, groups: ":a,b,c :d"},
		"a size is a share, rounded up":              {spec: size("60%"), fleet: four, groups: ":a,b,c :d"},
		"a share is of the chosen":                   {spec: size("50%") + "\nnumberOfClusters: 2", fleet: four, groups: ":a :b"},
		"100% is one group":                          {spec: size("100%"), fleet: four, groups: ":a,b,c,d"},
		"1% is one cluster":                          {spec: size("1%"), fleet: four, groups: ":a :b :c :d"},
		"0 is all":                                   {spec: size("0"), fleet: four, groups: ":a,b,c,d"},
		"more than all is all":                       {spec: size("9"), fleet: four, groups: ":a,b,c,d"},
		"a text without % is a misconfiguration":     {spec: size("'2'"), fleet: four, groups: "", misconfigured: bad("2 invalid type: string is not a percentage"), satisfied: noneMatched, selected: "a"},
		"a text that is not a number is one":         {spec: size("x%"), fleet: four, groups: "", misconfigured: bad("x% invalid type: string is not a percentage")},
		"named groups take what is not taken yet":    {spec: named("100%", xs+", {groupName: all, groupClusterSelector: {}}"), fleet: four, groups: "xs:a,c all:b,d"},
		"they are cut into pieces of the size":       {spec: named("1", xs), fleet: four, groups: "xs:a xs:c :b :d", decisions: "p-decision-1[xs 0] p-decision-2[xs 1] p-decision-3[ 2] p-decision-4[ 3]"},
		"the rest is in groups without a name":       {spec: named("100%", xs), fleet: four, groups: "xs:a,c :b,d", decisions: "p-decision-1[xs 0] p-decision-2[ 1]"},
		"a named group without clusters is left out": {spec: named("100%", "{groupName: none, groupClusterSelector: {labelSelector: {matchLabels: {x: z}}}}"), fleet: four, groups: ":a,b,c,d", decisions: "p-decision-1[ 0]"},
		"no cluster is one empty group":              {spec: named("100%", xs), fleet: "{}", groups: ":", decisions: "p-decision-1[ 0]"},
		"clusters are in the order of their names":   {spec: "numberOfClusters: 4", fleet: four, selected: "d c", groups: ":a,b,c,d"},
		"a bad group selector is a misconfiguration": {spec: named("100%", "{groupName: g, groupClusterSelector: {labelSelector: {matchExpressions: [{key: x, operator: Like}]}}}"), fleet: four, groups: "", misconfigured: bad(`"Like" is not a valid label selector operator`), satisfied: noneMatched},
	})
}

func TestGoldenSlices(t *testing.T) {
	fleet := make([]string, 0, 250)
	for i := range 250 {
		fleet = append(fleet, fmt.Sprintf("c%03d", i))
	}
	for n, want := range map[int]string{
		0:   "p-decision-1 0",
		1:   "p-decision-1 1",
		100: "p-decision-1 100",
		101: "p-decision-1 100, p-decision-2 1",
		250: "p-decision-1 100, p-decision-2 100, p-decision-3 50",
	} {
		r := scheduling.Schedule(input(specOf(t, "{}"), clusters(fleet[:n]...)))
		var got []string
		for _, d := range scheduling.Decisions("p", r.Groups) {
			got = append(got, fmt.Sprintf("%s %d", d.Name, len(d.Clusters)))
			if index := d.Labels["cluster.open-cluster-management.io/decision-group-index"]; index != "0" {
				t.Errorf("%s is of the group %s, want 0", d.Name, index)
			}
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%d clusters are in %s, want %s", n, s, want)
		}
	}
}

func TestGoldenConditions(t *testing.T) {
	no := func(change func(*scheduling.Sets)) func(*scheduling.Input) {
		return func(in *scheduling.Input) {
			in.Clusters = nil
			change(&in.Sets)
		}
	}
	checkAll(t, map[string]golden{
		"no valid binding":                          {spec: "clusterSets: [x]", change: no(func(s *scheduling.Sets) { *s = scheduling.Sets{} }), groups: ":", satisfied: "False/NoManagedClusterSetBindings/No valid ManagedClusterSetBindings found in placement namespace"},
		"no eligible set, in the spec's order":      {spec: "clusterSets: [b, a]", change: no(func(s *scheduling.Sets) { s.Eligible = nil }), groups: ":", satisfied: "False/NoIntersection/None of ManagedClusterSets [b,a] is bound to placement namespace"},
		"no available cluster":                      {change: no(func(s *scheduling.Sets) { s.Eligible = []string{"a", "b"} }), groups: ":", satisfied: "False/AllManagedClusterSetsEmpty/All ManagedClusterSets [a,b] have no member ManagedCluster"},
		"nothing is selected":                       {spec: "numberOfClusters: 3\npredicates: [" + selector("labelSelector: {matchLabels: {x: y}}") + "]", fleet: "{a: {}}", groups: ":", satisfied: noneMatched},
		"none is missing":                           {spec: "numberOfClusters: 1", fleet: "{a: {}}", groups: ":a", misconfigured: configured, satisfied: allScheduled},
		"none is missing when no number is given":   {fleet: "{a: {}}", groups: ":a", misconfigured: configured, satisfied: allScheduled},
		"some are missing":                          {spec: "numberOfClusters: 3", fleet: "{a: {}}", groups: ":a", misconfigured: configured, satisfied: "False/NotAllDecisionsScheduled/2 cluster decisions unscheduled"},
		"one is missing":                            {spec: "numberOfClusters: 2", fleet: "{a: {}}", groups: ":a", satisfied: "False/NotAllDecisionsScheduled/1 cluster decisions unscheduled"},
		"a misconfiguration matches nothing":        {spec: "numberOfClusters: 2\nprioritizerPolicy: {mode: X}", fleet: "{a: {}}", groups: ":", misconfigured: "True/Misconfigured/:incorrect prioritizer policy mode: X", satisfied: noneMatched},
		"what is wrong first is reported first":     {spec: "prioritizerPolicy: {mode: X}\ndecisionStrategy: {groupStrategy: {clustersPerDecisionGroup: half}}", fleet: "{a: {}}", groups: "", misconfigured: "True/Misconfigured/:incorrect prioritizer policy mode: X", satisfied: noneMatched},
		"no binding goes before a misconfiguration": {spec: "prioritizerPolicy: {mode: X}", change: no(func(s *scheduling.Sets) { *s = scheduling.Sets{} }), groups: ":", misconfigured: "True/Misconfigured/:incorrect prioritizer policy mode: X", satisfied: "False/NoManagedClusterSetBindings/No valid ManagedClusterSetBindings found in placement namespace"},
	})
}
