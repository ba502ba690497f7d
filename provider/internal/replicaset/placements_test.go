package replicaset

import (
	"context"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
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
	want := placed([]placementRefModel{{Name: tfString("b"), RolloutStrategy: &workload.RolloutModel{Type: tfString("Progressive")}}, own[0]})
	if got := keepPlacementRefs(placed(own), placed(placementRefModels(live))); !got.Equal(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// placed is the attribute placements.
func placed(models []placementRefModel) attr.Value {
	of := specTable().Types()["placements"]
	value := attribute.Null(of)
	tfsdk.ValueFrom(context.Background(), models, of, &value)
	return value
}
