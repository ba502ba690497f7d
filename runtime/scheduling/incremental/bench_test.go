package incremental_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling/incremental"
)

// The fleet of the benchmarks.
const (
	benchedClusters   = 10_000
	benchedPlacements = 500
	benchedTeams      = 50
	// changes is how many changes make one operation, since one takes less time
	// than a benchmark's clock to stop and go.
	changes = 100
)

func benchedCluster(i int) *clusterv1.ManagedCluster {
	c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cluster-%05d", i), ResourceVersion: "1", Labels: map[string]string{
		cluster.ClusterSetLabel: fmt.Sprintf("set-%d", i%20),
		"env":                   []string{"dev", "test", "prod"}[i%3],
		"region":                fmt.Sprintf("region-%d", i%10),
		"team":                  fmt.Sprintf("team-%d", i%benchedTeams),
		"tier":                  []string{"gold", "silver"}[i%2],
		"vendor":                "OpenShift", "cloud": "Amazon", "name": fmt.Sprint(i),
		"feature.open-cluster-management.io/addon-metrics": "available",
	}}}
	c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{
		{Name: "id.k8s.io", Value: fmt.Sprint(i)}, {Name: "platform", Value: []string{"aws", "gcp"}[i%2]}, {Name: "version", Value: "v1.36.2"},
	}
	c.Status.Capacity = clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse("64"), clusterv1.ResourceMemory: resource.MustParse("256Gi")}
	c.Status.Allocatable = clusterv1.ResourceList{clusterv1.ResourceCPU: *resource.NewQuantity(int64(8+i%48), resource.DecimalSI), clusterv1.ResourceMemory: resource.MustParse("128Gi")}
	c.Status.Conditions = []metav1.Condition{{Type: "HubAcceptedManagedCluster", Status: "True"}, {Type: "ManagedClusterJoined", Status: "True"}, {Type: "ManagedClusterConditionAvailable", Status: "True"}}
	return c
}

// benchedPlacement is one of several sorts: most choose few of a team's or a
// region's clusters, some all of them, some rank by scores or what is free.
func benchedPlacement(i int) *clusterv1beta1.Placement {
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("ns-%d", i%25), Name: fmt.Sprintf("placement-%03d", i), UID: types.UID(fmt.Sprint(i)), Generation: 1}}
	wanted := map[string]string{"team": fmt.Sprintf("team-%d", i%benchedTeams)}
	if i%5 == 0 {
		wanted = map[string]string{"region": fmt.Sprintf("region-%d", i/5%10), "env": "prod"}
	}
	if i%25 != 0 { // these consider all clusters
		p.Spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: wanted}}}}
	}
	if i%10 != 1 { // these take all that match
		p.Spec.NumberOfClusters = ptr.To([]int32{1, 3, 10, 50}[i%4])
	}
	switch i % 10 {
	case 2:
		p.Spec.PrioritizerPolicy.Configurations = ranking(clusterv1beta1.ScoreCoordinate{BuiltIn: "ResourceAllocatableCPU"}).PrioritizerPolicy.Configurations
	case 3:
		p.Spec.PrioritizerPolicy.Configurations = ranking(clusterv1beta1.ScoreCoordinate{Type: "AddOn", AddOn: &clusterv1beta1.AddOnScore{ResourceName: "cost", ScoreName: "hourly"}}).PrioritizerPolicy.Configurations
	}
	return p
}

// benchedFleet makes a model of the fleet: sets, bindings and scores, too.
func benchedFleet() *model {
	m := newModel()
	for i := range 20 {
		name := fmt.Sprintf("set-%d", i)
		m.sets[name] = &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for n := range 25 {
			m.bindings[types.NamespacedName{Namespace: fmt.Sprintf("ns-%d", n), Name: name}] = true
		}
	}
	for i := range benchedClusters {
		c := benchedCluster(i)
		m.clusters[c.Name] = c
		s := &clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: c.Name, Name: "cost"}}
		s.Status.Scores = []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "hourly", Value: int32(i%201 - 100)}}
		m.scores[keyOf(s)] = s
	}
	for i := range benchedPlacements {
		p := benchedPlacement(i)
		m.placements[keyOf(p)] = p
	}
	return m
}

// addFleet adds to an engine all of a model but its placements.
func (m *model) addFleet(e *incremental.Engine) {
	for _, s := range m.sets {
		e.UpsertSet(s)
	}
	for b := range m.bindings {
		e.UpsertBinding(b)
	}
	for _, c := range m.clusters {
		e.UpsertCluster(c)
	}
	for _, s := range m.scores {
		e.UpsertScore(s)
	}
}

// decide schedules a placement, writes its decisions as the controller would,
// and updates the engine.
func (m *model) decide(e *incremental.Engine, key types.NamespacedName) {
	s, ok := e.Schedule(key, m.now)
	if !ok {
		return
	}
	for i, d := range scheduling.Decisions(key.Name, s.Result.Groups) {
		if i < len(s.Present) && len(s.Present[i].Status.Decisions) == len(d.Clusters) && sameClusters(s.Present[i], d.Clusters) {
			continue
		}
		o := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: d.Name, Labels: d.Labels}}
		for _, c := range d.Clusters {
			o.Status.Decisions = append(o.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: c})
		}
		m.write(o)
		e.UpsertDecision(o)
	}
}

func sameClusters(d *clusterv1beta1.PlacementDecision, want []string) bool {
	for i := range want {
		if d.Status.Decisions[i].ClusterName != want[i] {
			return false
		}
	}
	return true
}

// inUse is the memory that is in use.
func inUse() float64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc)
}

// plainCost is what the plain algorithm takes for one placement of the fleet, on
// average, without gathering what it decides from.
func plainCost(m *model) time.Duration {
	const every = 23 // so that all sorts are among them
	var inputs []scheduling.Input
	for i := 0; i < benchedPlacements; i += every {
		inputs = append(inputs, m.input(m.placements[keyOf(benchedPlacement(i))]))
	}
	start := time.Now()
	for _, in := range inputs {
		scheduling.Schedule(in)
	}
	return time.Since(start) / time.Duration(len(inputs))
}

// BenchmarkFleet measures the engine with 10,000 clusters and 500 placements, and
// how many times as much the plain algorithm takes, which schedules all
// placements whose sets a changed cluster is in.
func BenchmarkFleet(b *testing.B) {
	m := benchedFleet()
	before := inUse()
	e := incremental.New(m.options)
	m.addFleet(e)
	withClusters := inUse()
	addPlacements(m, e)
	for range 2 { // the second time, each has decisions of its own
		for key := range m.placements {
			m.decide(e, key)
		}
	}
	for key := range m.placements {
		e.Schedule(key, m.now)
	}
	withPlacements := inUse()
	plain := plainCost(m) * benchedPlacements

	compare := func(b *testing.B, plain time.Duration) {
		b.ReportMetric(float64(plain)/(float64(b.Elapsed())/float64(b.N)), "x-plain")
	}
	b.Run("first scheduling of all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			e := incremental.New(m.options)
			m.addFleet(e)
			b.StartTimer()
			addPlacements(m, e)
			for key := range m.placements {
				e.Schedule(key, m.now)
			}
		}
		compare(b, plain)
	})
	change := func(name string, c func(c *clusterv1.ManagedCluster, i int)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			concerned, i := 0, 0
			changed := make([]*clusterv1.ManagedCluster, changes)
			for b.Loop() {
				b.StopTimer()
				for n := range changed {
					i++
					o := m.clusters[fmt.Sprintf("cluster-%05d", i*7919%benchedClusters)].DeepCopy()
					o.ResourceVersion = fmt.Sprint(i, name)
					c(o, i)
					m.clusters[o.Name], changed[n] = o, o
				}
				b.StartTimer()
				for _, o := range changed {
					for _, key := range e.UpsertCluster(o) {
						m.decide(e, key)
						concerned++
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*changes), "ns/change")
			b.ReportMetric(float64(concerned)/float64(b.N*changes), "placements/change")
			compare(b, changes*plain)
		})
	}
	change("100 times an irrelevant label", func(c *clusterv1.ManagedCluster, i int) { c.Labels["name"] = fmt.Sprint(i, "-th") })
	change("100 times a heartbeat", func(c *clusterv1.ManagedCluster, i int) { c.Status.Conditions[2].Message = fmt.Sprint(i) })
	change("100 times a relevant label", func(c *clusterv1.ManagedCluster, i int) {
		c.Labels["team"] = fmt.Sprintf("team-%d", i%benchedTeams)
	})
	change("100 times a taint", func(c *clusterv1.ManagedCluster, i int) {
		if c.Spec.Taints != nil {
			c.Spec.Taints = nil
			return
		}
		c.Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectNoSelect}}
	})
	change("100 times allocatable", func(c *clusterv1.ManagedCluster, i int) {
		c.Status.Allocatable[clusterv1.ResourceCPU] = *resource.NewQuantity(int64(8+i%48), resource.DecimalSI)
	})
	b.Run("memory", func(b *testing.B) {
		for b.Loop() { // what is measured is there already
			runtime.KeepAlive(e)
		}
		b.ReportMetric((withClusters-before)/benchedClusters, "B/cluster")
		b.ReportMetric((withPlacements-withClusters)/benchedPlacements, "B/placement")
		b.ReportMetric(0, "ns/op")
	})
}

func addPlacements(m *model, e *incremental.Engine) {
	for _, p := range m.placements {
		e.UpsertPlacement(p)
	}
}
