package scheduling_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// regions are clusters in regions: "eu:a,b us:c" and, without one, ":d".
func regions(text string) []*clusterv1.ManagedCluster {
	var out []*clusterv1.ManagedCluster
	for part := range strings.FieldsSeq(text) {
		region, names, _ := strings.Cut(part, ":")
		for _, c := range clusters(strings.Split(names, ",")...) {
			if region != "" {
				c.Labels["region"] = region
				c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "zone", Value: region + "-" + c.Name[:1]}}
			}
			out = append(out, c)
		}
	}
	return out
}

func TestSpread(t *testing.T) {
	const (
		strict = `{topologyKey: region, topologyKeyType: Label, maxSkew: %d, whenUnsatisfiable: DoNotSchedule}`
		mild   = `{topologyKey: region, topologyKeyType: Label, maxSkew: %d, whenUnsatisfiable: ScheduleAnyway}`
	)
	for name, x := range map[string]struct {
		constraints string
		n           string
		fleet       string
		want        string
		satisfied   string
	}{
		"evenly over the values":                        {fmt.Sprintf(strict, 1), "4", "eu:a,b,c,d us:x,y,z", "a b x y", "AllDecisionsScheduled"},
		"the best come first":                           {fmt.Sprintf(strict, 1), "3", "eu:a,b,c,d us:x,y,z", "a b x", "AllDecisionsScheduled"},
		"as uneven as allowed":                          {fmt.Sprintf(strict, 2), "4", "eu:a,b,c,d us:x,y,z", "a b c x", "AllDecisionsScheduled"},
		"no further when a value has no more":           {fmt.Sprintf(strict, 1), "5", "eu:a us:w,x,y,z", "a w x", "NotAllDecisionsScheduled"},
		"further if that is only a wish":                {fmt.Sprintf(mild, 1), "4", "eu:a us:w,x,y,z", "a w x y", "AllDecisionsScheduled"},
		"a wish does not give way to a better rank":     {fmt.Sprintf(mild, 1), "2", "eu:a,b,c us:x", "a x", "AllDecisionsScheduled"},
		"no strict place without a value":               {fmt.Sprintf(strict, 1), "3", "eu:b us:x :a", "b x", "NotAllDecisionsScheduled"},
		"a last place without a value":                  {fmt.Sprintf(mild, 1), "3", "eu:b us:x :a", "a b x", "AllDecisionsScheduled"},
		"no place without a value before others":        {fmt.Sprintf(mild, 1), "2", "eu:b us:x :a", "b x", "AllDecisionsScheduled"},
		"by claim":                                      {`{topologyKey: zone, topologyKeyType: Claim, whenUnsatisfiable: DoNotSchedule}`, "3", "eu:a1,a2,b1 us:c1", "a1 b1 c1", "AllDecisionsScheduled"},
		"a label is not a claim":                        {`{topologyKey: region, topologyKeyType: Claim, whenUnsatisfiable: DoNotSchedule}`, "3", "eu:a us:b", "", "NoManagedClusterMatched"},
		"without a skew it is 1":                        {`{topologyKey: region, topologyKeyType: Label, whenUnsatisfiable: DoNotSchedule}`, "2", "eu:a,b us:x", "a x", "AllDecisionsScheduled"},
		"without an action it is a wish":                {`{topologyKey: region, topologyKeyType: Label}`, "3", "eu:a,b us:x", "a b x", "AllDecisionsScheduled"},
		"by two keys":                                   {fmt.Sprintf(strict, 1) + `, {topologyKey: zone, topologyKeyType: Claim, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}`, "4", "eu:a1,a2,b1 us:c1,c2,d1", "a1 b1 c1 d1", "AllDecisionsScheduled"},
		"the first wish counts more":                    {fmt.Sprintf(mild, 1) + `, {topologyKey: name, topologyKeyType: Label, maxSkew: 1}`, "2", "eu:a,b us:x", "a x", "AllDecisionsScheduled"},
		"a strict one counts more than an earlier wish": {`{topologyKey: zone, topologyKeyType: Claim}, ` + fmt.Sprintf(strict, 1), "2", "eu:a1,b1 us:a2", "a1 a2", "AllDecisionsScheduled"},
		"none is asked for":                             {fmt.Sprintf(strict, 1), "0", "eu:a us:b", "", "NoManagedClusterMatched"},
		"all are asked for":                             {fmt.Sprintf(strict, 1), "null", "eu:a,b,c us:x", "a b c x", "AllDecisionsScheduled"},
		"no cluster":                                    {fmt.Sprintf(strict, 1), "2", "", "", "AllManagedClusterSetsEmpty"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := specOf(t, fmt.Sprintf("{numberOfClusters: %s, spreadPolicy: {spreadConstraints: [%s]}}", x.n, x.constraints))
			r := scheduling.Schedule(input(spec, regions(x.fleet)))
			if got := strings.Join(chosen(r), " "); got != x.want || r.Conditions[1].Reason != x.satisfied {
				t.Errorf("chose %q, %s, want %q, %s", got, r.Conditions[1].Reason, x.want, x.satisfied)
			}
		})
	}
}

func TestAnEmptyValueIsAValueToSpreadOver(t *testing.T) {
	all := regions("eu:a,b :c,d")
	all[2].Labels["region"] = ""
	spec := specOf(t, "{numberOfClusters: 4, spreadPolicy: {spreadConstraints: [{topologyKey: region, topologyKeyType: Label, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}}")
	mustChoose(t, scheduling.Schedule(input(spec, all)), "a", "b", "c")
}

func TestASpreadChoiceIsByRank(t *testing.T) {
	c := compiled(t, "{numberOfClusters: 3, spreadPolicy: {spreadConstraints: [{topologyKey: region, topologyKeyType: Label, maxSkew: 1}]}}")
	var ranked []scheduling.Ranked
	for i, x := range regions("eu:a,b us:c") {
		ranked = append(ranked, scheduling.Ranked{View: scheduling.NewView(x), Total: int64(-i)})
	}
	var got []string
	for _, r := range c.Choose(ranked).Chosen {
		got = append(got, r.Name)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("chose %v, want %v: c was taken before b, but ranks after it", got, want)
	}
}

// Whatever the fleet, a strict spread is kept, no cluster could be added that
// keeps it, and the order of the clusters makes no difference.
func TestSpreadIsKeptOnRandomFleets(t *testing.T) {
	seed := uint64(now.Unix())
	random := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		var all []*clusterv1.ManagedCluster
		for i := range 1 + random.IntN(30) {
			c := clusters(fmt.Sprintf("c%02d", i))[0]
			if region := random.IntN(5); region > 0 {
				c.Labels["region"] = strings.Repeat("r", region)
			}
			all = append(all, c)
		}
		skew, n := 1+random.IntN(3), random.IntN(20)
		spec := clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To(int32(n)), SpreadPolicy: clusterv1beta1.SpreadPolicy{SpreadConstraints: []clusterv1beta1.SpreadConstraintsTerm{{
			TopologyKey: "region", TopologyKeyType: clusterv1beta1.TopologyKeyTypeLabel, MaxSkew: int32(skew), WhenUnsatisfiable: clusterv1beta1.DoNotSchedule,
		}}}}
		in := input(spec, all)
		in.Selected = map[string]bool{all[0].Name: true}
		got := chosen(scheduling.Schedule(in))
		counts, free := map[string]int{}, map[string]int{}
		for _, c := range all {
			if region, ok := c.Labels["region"]; ok {
				if counts[region] += 0; slices.Contains(got, c.Name) {
					counts[region]++
				} else {
					free[region]++
				}
			} else if slices.Contains(got, c.Name) {
				t.Fatalf("seed %d: %s is chosen without a region", seed, c.Name)
			}
		}
		least := n
		for _, count := range counts {
			least = min(least, count)
		}
		for region, count := range counts {
			if count-least > skew {
				t.Fatalf("seed %d: %v are chosen by region, the skew may be %d", seed, counts, skew)
			}
			if len(got) < n && free[region] > 0 && count+1-least <= skew {
				t.Fatalf("seed %d: %d of %d are chosen, though %s has more", seed, len(got), n, region)
			}
		}
		random.Shuffle(len(in.Clusters), func(i, j int) { in.Clusters[i], in.Clusters[j] = in.Clusters[j], in.Clusters[i] })
		if again := chosen(scheduling.Schedule(in)); !slices.Equal(got, again) {
			t.Fatalf("seed %d: chose %v, and in another order %v", seed, got, again)
		}
	}
}

func TestSortByScore(t *testing.T) {
	groups := `{prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {type: AddOn, addOn: {resourceName: cost, scoreName: s}}}]}, ` +
		`decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 2, decisionGroups: [{groupName: first, groupClusterSelector: {labelSelector: {matchExpressions: [{key: name, operator: In, values: [a, c, d]}]}}}]}}`
	for sortBy, want := range map[string]string{
		"":            "first:a,c first:d :b,e",
		"ClusterName": "first:a,c first:d :b,e",
		"Score":       "first:d,c first:a :e,b", // b and e are alike but for their score, a and c by name
	} {
		in := input(specOf(t, groups+`, sortBy: "`+sortBy+`"}`), clusters("e", "d", "c", "b", "a"))
		in.Score = scoresOf("a/cost s=1", "b/cost s=-5", "c/cost s=2", "d/cost s=9", "e/cost s=0")
		if got := inGroups(scheduling.Schedule(in)); got != want {
			t.Errorf("by %q the groups are %q, want %q", sortBy, got, want)
		}
	}
}

func TestSortByScoreThenByName(t *testing.T) {
	in := input(clusterv1beta1.PlacementSpec{SortBy: clusterv1beta1.PlacementSortByScore}, clusters("c", "b", "a"))
	in.Selected = map[string]bool{"b": true}
	if got := inGroups(scheduling.Schedule(in)); got != ":b,a,c" {
		t.Errorf("the groups are %q, want b, which is steady, and then a,c", got)
	}
}
