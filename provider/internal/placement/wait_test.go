package placement

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// satisfying is a placement of generation 2 with a condition PlacementSatisfied.
func satisfying(status metav1.ConditionStatus, generation int64, clusters int32) *clusterv1beta1.Placement {
	object := &clusterv1beta1.Placement{}
	object.Namespace, object.Name, object.Generation = "n", "p", 2
	object.Status.NumberOfSelectedClusters = clusters
	object.Status.Conditions = []metav1.Condition{{Type: cluster.ConditionPlacementSatisfied, Status: status, Reason: cluster.ReasonNotAllDecisionsScheduled, Message: "2 cluster decisions unscheduled", ObservedGeneration: generation}}
	return object
}

func TestWhatAPlacementLacks(t *testing.T) {
	satisfied := waitModel{Satisfied: types.BoolValue(true)}
	three := waitModel{MinClusters: types.Int64Value(3)}
	unsatisfied := waitModel{Conditions: []types.String{types.StringValue("PlacementSatisfied=False")}}
	for name, test := range map[string]struct {
		wait   waitModel
		object *clusterv1beta1.Placement
		want   string // "" is nothing
	}{
		"satisfied":                       {satisfied, satisfying("True", 2, 1), ""},
		"not satisfied":                   {satisfied, satisfying("False", 2, 1), "PlacementSatisfied: it is False"},
		"satisfied before the change":     {satisfied, satisfying("True", 1, 1), "PlacementSatisfied: it is reported for generation 1 only, so the scheduler has not seen the last change"},
		"upstream notes no generation":    {satisfied, satisfying("True", 0, 1), ""},
		"nobody has reported":             {satisfied, &clusterv1beta1.Placement{}, "PlacementSatisfied: nobody has reported it"},
		"enough clusters":                 {three, satisfying("False", 2, 3), ""},
		"too few clusters":                {three, satisfying("True", 2, 2), "min_clusters: 2 of 3 are selected"},
		"enough, but before the change":   {three, satisfying("True", 1, 3), "min_clusters: 3 of 3 are selected"},
		"another status":                  {unsatisfied, satisfying("False", 2, 0), ""},
		"not another status":              {unsatisfied, satisfying("True", 2, 0), "PlacementSatisfied=False: it is True"},
		"all of it has to be, not a part": {waitModel{Satisfied: types.BoolValue(true), MinClusters: types.Int64Value(3)}, satisfying("True", 2, 2), "min_clusters: 2 of 3 are selected"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(test.wait.missing(test.object), "|"); got != test.want {
				t.Errorf("lacks %q, want %q", got, test.want)
			}
		})
	}
}

func TestTheTextOfAWaitThatIsNotMet(t *testing.T) {
	text := func(reason string) string {
		object := satisfying("False", 2, 1)
		object.Status.Conditions[0].Reason = reason
		object.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Unix(0, 0))
		object.Spec.ClusterSets = []string{"blue"}
		wait := (&waitModel{Satisfied: types.BoolValue(true)}).wait(nil, "", object, 10*time.Minute)
		return wait.Describe(t.Context(), nil, time.Unix(90, 0))
	}
	for reason, want := range map[string]string{
		cluster.ReasonNotAllDecisionsScheduled:    "muster_placement_preview",
		cluster.ReasonNoManagedClusterSetBindings: "muster_managed_cluster_set_binding",
		cluster.ReasonNoIntersection:              "cluster_sets (blue)",
		cluster.ReasonAllManagedClusterSetsEmpty:  "cluster_set of muster_managed_cluster",
	} {
		got := text(reason)
		for _, part := range []string{
			"Within 10m generation 2", "PlacementSatisfied: it is False", "Selected clusters: 1", "(" + reason + ", for 90s): 2 cluster decisions unscheduled", want,
			"kubectl describe placement -n n p",
		} {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q is missing in:\n%s", reason, part, got)
			}
		}
	}
	wait := (&waitModel{Satisfied: types.BoolValue(true)}).wait(nil, "", &clusterv1beta1.Placement{}, time.Minute)
	nobody := wait.Describe(t.Context(), nil, time.Now())
	if !strings.Contains(nobody, "no scheduler runs") {
		t.Errorf("a silent hub is not suspected in:\n%s", nobody)
	}
}
