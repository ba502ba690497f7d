package replicaset

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// An attribute of the resource that the data source lacks, or the other way
// round, would only be found by a user who misses it.
func TestReplicaSetDataSourceHasTheResourcesAttributes(t *testing.T) {
	var response datasource.SchemaResponse
	Set().NewDataSource().Schema(t.Context(), datasource.SchemaRequest{}, &response)
	for name := range specTable().Shown("generation").Attributes() {
		if response.Schema.Attributes[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	if manifests := response.Schema.Attributes["manifests"]; manifests == nil || !manifests.IsSensitive() {
		t.Error("manifests are not sensitive")
	}
}

// A wait that was met stays met, and one that wasn't can be by itself.
func TestObservedReplicaSetIsReady(t *testing.T) {
	wait := func(rolledOut attr.Value) attr.Value {
		of := waitAttribute().Schema().GetType().(types.ObjectType).AttrTypes
		if rolledOut == nil {
			return types.ObjectNull(of)
		}
		return types.ObjectValueMust(of, map[string]attr.Value{
			"rolled_out": rolledOut, "conditions": types.SetNull(types.StringType),
		})
	}
	for name, test := range map[string]struct {
		wait   attr.Value
		ready  types.Bool
		status metav1.ConditionStatus
		want   types.Bool
	}{
		"without a wait":   {wait(nil), types.BoolNull(), metav1.ConditionTrue, types.BoolNull()},
		"still not":        {wait(types.BoolValue(true)), types.BoolValue(false), metav1.ConditionFalse, types.BoolValue(false)},
		"now":              {wait(types.BoolValue(true)), types.BoolValue(false), metav1.ConditionTrue, types.BoolValue(true)},
		"once and for all": {wait(types.BoolValue(true)), types.BoolValue(true), metav1.ConditionFalse, types.BoolValue(true)},
	} {
		t.Run(name, func(t *testing.T) {
			values, object := attribute.Values{"wait": test.wait, "ready": test.ready}, reported(test.status, 3)
			crud.StayReady(values, func() bool { return len(waitOf(values).missing(object, nil)) == 0 })
			if !values["ready"].Equal(test.want) {
				t.Errorf("got %s, want %s", values["ready"], test.want)
			}
		})
	}
}

// A summary's numbers have to arrive under their names.
func TestReplicaSetSummary(t *testing.T) {
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	object.Status.Summary = counts{Total: 1, Applied: 2, Available: 3, Progressing: 4, Degraded: 5}
	got := statusTable().Read(object)["summary"].(types.Object)
	for name, want := range map[string]int64{"total": 1, "applied": 2, "available": 3, "progressing": 4, "degraded": 5} {
		if !got.Attributes()[name].Equal(types.Int64Value(want)) {
			t.Errorf("%s is %s, want %d", name, got.Attributes()[name], want)
		}
	}
}
