package replicaset

import (
	"reflect"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

func tfString(s string) types.String { return types.StringValue(s) }

// A refresh keeps the words of the configuration for what is still so, and takes
// the hub's for the rest.
func TestObservedPlacementsKeepTheirWording(t *testing.T) {
	own := []placementRefModel{
		{Name: tfString("a"), RolloutStrategy: &workload.RolloutModel{Type: tfString("Progressive"), MinSuccessTime: tfString("5m"), MaxFailures: tfString("0")}},
		{Name: tfString("b")},
	}
	progressive := func(success string) clusterv1alpha1.RolloutStrategy {
		return clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressive, Progressive: &clusterv1alpha1.RolloutProgressive{
			RolloutConfig: clusterv1alpha1.RolloutConfig{MinSuccessTime: success, ProgressDeadline: clusterv1alpha1.ProgressDeadlineNone},
		}}
	}
	live := []workv1alpha1.LocalPlacementReference{
		{Name: "b", RolloutStrategy: progressive("0")},
		{Name: "a", RolloutStrategy: progressive("300s")},
	}
	want := []placementRefModel{{Name: tfString("b"), RolloutStrategy: &workload.RolloutModel{Type: tfString("Progressive")}}, own[0]}
	if got := placementRefModels(live, own); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
