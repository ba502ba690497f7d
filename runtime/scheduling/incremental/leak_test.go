package incremental

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterapi "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

func TestNothingIsLeftOfWhatIsGone(t *testing.T) {
	e := New(scheduling.Options{})
	key := types.NamespacedName{Namespace: "ns", Name: "p"}
	score := types.NamespacedName{Namespace: "c", Name: "cost"}
	binding := types.NamespacedName{Namespace: "ns", Name: "set"}
	decision := types.NamespacedName{Namespace: "ns", Name: "p-decision-1"}
	for range 3 {
		e.UpsertBinding(binding)
		e.UpsertSet(&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}})
		e.UpsertPlacement(&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "1"}, Spec: clusterv1beta1.PlacementSpec{
			NumberOfClusters: ptr.To[int32](1),
			Predicates: []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
				LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "dev"}},
				CELSelector:   clusterv1beta1.ClusterCELSelector{CELExpressions: []string{"true"}},
			}}},
			PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{Configurations: []clusterv1beta1.PrioritizerConfig{{ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{
				Type: clusterv1beta1.ScoreCoordinateTypeAddOn, AddOn: &clusterv1beta1.AddOnScore{ResourceName: "cost", ScoreName: "hourly"},
			}}}},
		}})
		e.UpsertCluster(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{clusterapi.ClusterSetLabel: "set", "env": "dev"}}})
		e.UpsertScore(&clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: score.Namespace, Name: score.Name}})
		e.UpsertDecision(&clusterv1beta1.PlacementDecision{
			ObjectMeta: metav1.ObjectMeta{Namespace: decision.Namespace, Name: decision.Name, Labels: map[string]string{clusterapi.PlacementLabel: "p"}},
			Status:     clusterv1beta1.PlacementDecisionStatus{Decisions: []clusterv1beta1.ClusterDecision{{ClusterName: "c"}}},
		})
		if s, ok := e.Schedule(key, time.Now()); !ok || s.Result.Selected != 1 {
			t.Fatalf("chosen are %+v", s.Result.Groups)
		}
		e.DeletePlacement(key)
		e.DeleteCluster("c")
		e.DeleteScore(score)
		e.DeleteDecision(decision)
		e.DeleteSet("set")
		e.DeleteBinding(binding)
		if n := len(e.fleet.slots); n != 1 {
			t.Errorf("the number of the cluster that is gone is not used again: there are %d", n)
		}
		for what, n := range map[string]int{
			"clusters": len(e.fleet.byName), "names": len(e.fleet.ordered), "sets": len(e.sets), "namespaces": len(e.namespaces),
			"placements": len(e.placements), "decisions": len(e.decisions.byKey), "claims": len(e.decisions.byClaim), "levels": len(e.counts.levels),
			"terms of sets": len(e.setTerms), "terms of placements": len(e.placementTerms), "readers of scores": len(e.scoreReaders), "readers of everything": len(e.everything),
		} {
			if n != 0 {
				t.Errorf("%d %s are left", n, what)
			}
		}
	}
}
