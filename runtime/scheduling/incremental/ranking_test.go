package incremental_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling/incremental"
)

// newRanked makes a hub with one set of clusters, and placements that take few
// of many: a score decides, or balance, or what is allocatable.
func newRanked(seed uint64, clusters int) *hub {
	h := &hub{model: newModel(), dice: &dice{Rand: rand.New(rand.NewPCG(seed, 0)), size: clusters, wishes: 6}}
	h.engine = incremental.New(h.options)
	h.sets["all"] = &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: clusterv1beta2.ManagedClusterSetSpec{
		ClusterSelector: clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.LabelSelector, LabelSelector: &metav1.LabelSelector{}},
	}}
	h.engine.UpsertSet(h.sets["all"])
	for i := range clusters {
		h.changeCluster(fmt.Sprintf("cluster-%03d", i))
		h.changeScore(types.NamespacedName{Namespace: fmt.Sprintf("cluster-%03d", i), Name: "cost"})
	}
	cost := clusterv1beta1.ScoreCoordinate{Type: "AddOn", AddOn: &clusterv1beta1.AddOnScore{ResourceName: "cost", ScoreName: "hourly"}}
	for i, c := range []clusterv1beta1.ScoreCoordinate{cost, cost, cost, {BuiltIn: "Balance"}, {BuiltIn: "ResourceAllocatableCPU"}, cost} {
		key := types.NamespacedName{Namespace: fmt.Sprintf("ns-%d", i), Name: fmt.Sprintf("p%d", i)}
		p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: types.UID(key.Name)}, Spec: ranking(c)}
		p.Spec.NumberOfClusters = ptr.To([]int32{0, 1, 3, 5, 10, 200}[i])
		h.placements[key] = p
		h.engine.UpsertPlacement(p)
		key.Name = "all"
		h.bindings[key] = true
		h.engine.UpsertBinding(key)
	}
	return h
}

// However far the best fall and the others rise, those that are chosen are the
// best of all, not only of those that were the best before.
func TestTheBestAreFoundAmongMany(t *testing.T) {
	h := newRanked(seed(t), 400)
	for i := range 4000 {
		key := h.placementKey()
		var what string
		switch h.IntN(8) {
		case 0:
			what, _ = h.changeCluster(h.clusterName())
		case 1:
			what, _ = h.changeDecisions(key)
		default:
			// Mostly of those that are chosen, which then fall.
			name := h.clusterName()
			if present := h.present(h.placements[key]); len(present) > 0 && len(present[0].Status.Decisions) > 0 && !h.one(3) {
				decisions := present[0].Status.Decisions
				name = decisions[h.IntN(len(decisions))].ClusterName
			}
			what, _ = h.changeScore(types.NamespacedName{Namespace: name, Name: "cost"})
		}
		h.mustAgree(t, key, fmt.Sprintf("change %d, %s", i, what))
	}
}

// When all that were held as the best have fallen, the next best come up.
func TestTheNextBestComeUp(t *testing.T) {
	h := newRanked(1, 300)
	key := types.NamespacedName{Namespace: "ns-1", Name: "p1"}
	for i := range 250 {
		chosen := h.mustAgree(t, key, fmt.Sprint(i, " falls")).result.Groups[0].Clusters[0]
		s := h.score(types.NamespacedName{Namespace: chosen, Name: "cost"}, h.now)
		s.Status.ValidUntil, s.Status.Scores = nil, []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "hourly", Value: -100}}
		h.scores[keyOf(s)] = s
		h.engine.UpsertScore(s)
	}
}

// A placement that slept through more changes of counts than are remembered
// ranks by the present ones all the same.
func TestNoChangeOfCountsIsMissed(t *testing.T) {
	h := newRanked(1, 20)
	key := types.NamespacedName{Namespace: "ns-3", Name: "p3"}
	write := func(number int, clusters ...string) {
		d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "another", Name: fmt.Sprint("decision-", number)}}
		for _, c := range clusters {
			d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: c})
		}
		h.write(d)
		h.engine.UpsertDecision(d)
	}
	// Nobody gets to be in as many as this one, so that not all scores change.
	write(3, "nobody", "nobody", "nobody", "nobody")
	before := h.mustAgree(t, key, "the start").result.Groups[0].Clusters
	write(0, before...)
	for i := range 20_000 {
		write(2, fmt.Sprintf("nobody-%d", i%2))
	}
	h.mustAgree(t, key, "many decisions")
}
