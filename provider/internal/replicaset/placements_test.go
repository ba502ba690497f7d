package replicaset

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

func tfString(s string) types.String { return types.StringValue(s) }

// to is a placement with a strategy.
func to(name string, strategy clusterv1alpha1.RolloutStrategy) workv1alpha1.LocalPlacementReference {
	return workv1alpha1.LocalPlacementReference{Name: name, RolloutStrategy: strategy}
}

func progressively(success string) clusterv1alpha1.RolloutStrategy {
	return clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressive, Progressive: &clusterv1alpha1.RolloutProgressive{
		RolloutConfig: clusterv1alpha1.RolloutConfig{MinSuccessTime: success, ProgressDeadline: clusterv1alpha1.ProgressDeadlineNone},
	}}
}

// placed is the attribute placements.
func placed(placements ...workv1alpha1.LocalPlacementReference) attr.Value {
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	object.Spec.PlacementRefs = placements
	return specTable().Read(object)["placements"]
}

// A refresh keeps the words of the configuration for what is still so, and takes
// the hub's for the rest. So does a plan with those of the state.
func TestObservedPlacementsKeepTheirWording(t *testing.T) {
	own, live := &workv1alpha1.ManifestWorkReplicaSet{}, &workv1alpha1.ManifestWorkReplicaSet{}
	values := attribute.Values{
		"placements": placed(to("a", progressively("5m")), to("b", clusterv1alpha1.RolloutStrategy{})),
	}
	specTable().Write(values, own)
	live.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{
		to("a", progressively("300s")), to("b", progressively("0")),
	}
	specTable().Observe(values, own, live)
	if want := placed(to("a", progressively("5m")), to("b", progressively(""))); !values["placements"].Equal(want) {
		t.Errorf("got %s, want %s", values["placements"], want)
	}
	fresh := func() replicaSet { return &workv1alpha1.ManifestWorkReplicaSet{} }
	planned := attribute.Values{"placements": placed(to("a", progressively("300s")), to("b", progressively("0s")))}
	if kept := specTable().Kept(planned, values, fresh)["placements"]; kept == nil || !kept.Equal(values["placements"]) {
		t.Errorf("planned is %s", kept)
	}
}
