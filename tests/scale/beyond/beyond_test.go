package beyond

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// fleet is clusters with what placements go by, spread over hubs.
type fleet struct {
	all       []*clusterv1.ManagedCluster
	selected  map[string]bool
	elsewhere map[string]int
	scores    map[string]*clusterv1alpha1.AddOnPlacementScore
	hubs      []*Hub
}

func (f *fleet) score(name, _ string) *clusterv1alpha1.AddOnPlacementScore { return f.scores[name] }

func newFleet(r *rand.Rand, clusters, hubs int) *fleet {
	f := &fleet{
		selected: map[string]bool{}, elsewhere: map[string]int{},
		scores: map[string]*clusterv1alpha1.AddOnPlacementScore{},
	}
	for range hubs {
		f.hubs = append(f.hubs, &Hub{Selected: map[string]bool{}, Elsewhere: map[string]int{}, Score: f.score})
	}
	for i := range clusters {
		c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("cluster-%07d", i),
			Labels: map[string]string{"env": fmt.Sprint("env-", r.IntN(3)), "zone": fmt.Sprint("zone-", r.IntN(5))},
		}}
		c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "rack", Value: fmt.Sprint("rack-", r.IntN(4))}}
		if r.IntN(10) > 0 {
			c.Status.Capacity = clusterv1.ResourceList{"cpu": resource.MustParse("100")}
			free := resource.NewQuantity(int64(r.IntN(100)), resource.DecimalSI)
			c.Status.Allocatable = clusterv1.ResourceList{"cpu": *free}
		}
		if r.IntN(5) == 0 {
			c.Spec.Taints = []clusterv1.Taint{{Key: "busy", Effect: clusterv1.TaintEffectNoSelect}}
		}
		h := f.hubs[r.IntN(hubs)]
		h.Clusters = append(h.Clusters, scheduling.NewView(c))
		f.all = append(f.all, c)
		if r.IntN(4) == 0 {
			f.selected[c.Name], h.Selected[c.Name] = true, true
		}
		if n := r.IntN(6); n > 0 {
			f.elsewhere[c.Name], h.Elsewhere[c.Name] = n, n
		}
		if r.IntN(2) == 0 {
			s := &clusterv1alpha1.AddOnPlacementScore{}
			s.Status.Scores = []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "cost", Value: int32(r.IntN(200) - 100)}}
			f.scores[c.Name] = s
		}
	}
	return f
}

// decide lets the hubs evaluate a placement, and merges their answers. bytes is what the
// hubs and the merge have told each other.
func (f *fleet) decide(c *scheduling.Compiled) (chosen []string, bytes int) {
	var all Extremes
	for _, h := range f.hubs {
		e := h.Filter(c, now)
		bytes += size(e)
		all.Join(e)
	}
	var answers [][]Answer
	for _, h := range f.hubs {
		a := h.Rank(c, all, now)
		bytes += size(all) + size(a)
		answers = append(answers, a)
	}
	return Merge(c, answers...), bytes
}

func size(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return len(data)
}

func randomPlacement(r *rand.Rand) *clusterv1beta1.Placement {
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "any"}}
	if r.IntN(4) > 0 {
		p.Spec.NumberOfClusters = ptr.To(int32(r.IntN(12)))
	}
	if r.IntN(2) == 0 {
		p.Spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
			LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "env-1"}},
		}}}
	}
	if r.IntN(2) == 0 {
		p.Spec.Tolerations = []clusterv1beta1.Toleration{{Key: "busy", Operator: clusterv1beta1.TolerationOpExists}}
	}
	policy := &p.Spec.PrioritizerPolicy
	for _, by := range []clusterv1beta1.ScoreCoordinate{
		{Type: clusterv1beta1.ScoreCoordinateTypeBuiltIn, BuiltIn: "Balance"},
		{Type: clusterv1beta1.ScoreCoordinateTypeBuiltIn, BuiltIn: "Steady"},
		{Type: clusterv1beta1.ScoreCoordinateTypeBuiltIn, BuiltIn: "ResourceAllocatableCPU"},
		{
			Type:  clusterv1beta1.ScoreCoordinateTypeAddOn,
			AddOn: &clusterv1beta1.AddOnScore{ResourceName: "any", ScoreName: "cost"},
		},
	} {
		if r.IntN(2) == 0 {
			weight := int32(r.IntN(5) - 2)
			policy.Configurations = append(policy.Configurations, clusterv1beta1.PrioritizerConfig{
				ScoreCoordinate: &by, Weight: &weight,
			})
		}
	}
	for _, t := range []clusterv1beta1.SpreadConstraintsTerm{
		{
			TopologyKey: "zone", TopologyKeyType: clusterv1beta1.TopologyKeyTypeLabel,
			MaxSkew: 1, WhenUnsatisfiable: clusterv1beta1.ScheduleAnyway,
		},
		{
			TopologyKey: "rack", TopologyKeyType: clusterv1beta1.TopologyKeyTypeClaim,
			MaxSkew: 2, WhenUnsatisfiable: clusterv1beta1.DoNotSchedule,
		},
	} {
		if r.IntN(3) == 0 {
			p.Spec.SpreadPolicy.SpreadConstraints = append(p.Spec.SpreadPolicy.SpreadConstraints, t)
		}
	}
	return p
}

// Any fleet, spread over hubs in any way: the merge decides as one hub with all of the
// clusters does.
func TestAMergeDecidesAsOneHubWould(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := newFleet(r, 1+r.IntN(60), 1+r.IntN(6))
		p := randomPlacement(r)
		c := scheduling.Compile(p, scheduling.Options{})
		whole := c.Schedule(scheduling.Input{
			Placement: p, Clusters: f.all,
			Sets:     scheduling.Sets{Bound: []string{"global"}, Eligible: []string{"global"}},
			Selected: f.selected, Elsewhere: f.elsewhere, Score: f.score, Now: now,
		})
		var want []string
		for _, g := range whole.Groups {
			want = append(want, g.Clusters...)
		}
		slices.Sort(want)
		got, _ := f.decide(c)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: the merge chooses %v, and one hub %v, for %+v", seed, got, want, p.Spec)
		}
	}
}

// A million clusters on a hundred hubs, whose work is done one after the other here.
func BenchmarkAMillionClusters(b *testing.B) {
	const hubs, each = 100, 10_000
	one := newFleet(rand.New(rand.NewPCG(1, 1)), each, 1)
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "any"}}
	p.Spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
		LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "env-1"}},
	}}}
	for _, n := range []int32{100, 10_000} {
		p.Spec.NumberOfClusters = ptr.To(n)
		c := scheduling.Compile(p, scheduling.Options{})
		b.Run(fmt.Sprintf("%d of them chosen", n), func(b *testing.B) {
			var hub, merge time.Duration
			var bytes int
			for b.Loop() {
				begin := time.Now()
				e := one.hubs[0].Filter(c, now)
				a := one.hubs[0].Rank(c, e, now)
				hub += time.Since(begin)
				var answers [][]Answer
				for h := range hubs {
					of := slices.Clone(a)
					for i := range of {
						of[i].Name = fmt.Sprintf("hub-%03d-%s", h, of[i].Name)
					}
					answers = append(answers, of)
				}
				begin = time.Now()
				Merge(c, answers...)
				merge += time.Since(begin)
				bytes = hubs * (size(a) + 2*size(e))
			}
			b.ReportMetric(float64(hub.Microseconds())/float64(b.N)/1000, "ms/hub")
			b.ReportMetric(float64(merge.Microseconds())/float64(b.N)/1000, "ms/merge")
			b.ReportMetric(float64(bytes)/1e6, "MB")
		})
	}
}
