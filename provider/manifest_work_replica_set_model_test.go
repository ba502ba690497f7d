package provider

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// Terraform 1.12 and later import by identity.
func TestReplicaSetImportByIdentity(t *testing.T) {
	hub := newReplicaSetHub(t)
	own := replicaSetModel{Namespace: tfString("shop"), Name: tfString("web"), Placements: []placementRefModel{{Name: tfString("europe")}}}
	object, err := own.object()
	if err != nil {
		t.Fatal(err)
	}
	hub.apply(object)
	hub.report(metav1.ConditionTrue, present)

	server := configuredServer(t, hub.url)
	identity := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"namespace": tftypes.String, "name": tftypes.String}}
	value, err := tfprotov6.NewDynamicValue(identity, tftypes.NewValue(identity, map[string]tftypes.Value{
		"namespace": tftypes.NewValue(tftypes.String, "shop"), "name": tftypes.NewValue(tftypes.String, "web"),
	}))
	if err != nil {
		t.Fatal(err)
	}
	const kind = "muster_manifest_work_replica_set"
	resp, err := server.ImportResourceState(t.Context(), &tfprotov6.ImportResourceStateRequest{TypeName: kind, Identity: &tfprotov6.ResourceIdentityData{IdentityData: &value}})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range resp.Diagnostics {
		t.Fatalf("%s: %s", d.Summary, d.Detail)
	}
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	state, err := resp.ImportedResources[0].State.Unmarshal(schemas.ResourceSchemas[kind].ValueType())
	if err != nil {
		t.Fatal(err)
	}
	attributes := map[string]tftypes.Value{}
	if err := state.As(&attributes); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]tftypes.Value{
		"namespace":  tftypes.NewValue(tftypes.String, "shop"),
		"name":       tftypes.NewValue(tftypes.String, "web"),
		"rolled_out": tftypes.NewValue(tftypes.Bool, true),
		"ready":      tftypes.NewValue(tftypes.Bool, nil),
	} {
		if !attributes[name].Equal(want) {
			t.Errorf("%s is %s, want %s", name, attributes[name], want)
		}
	}
}

// An attribute of the resource that the data source lacks, or the other way
// round, would be found only by whoever misses it.
func TestReplicaSetDataSourceHasTheResourcesAttributes(t *testing.T) {
	observed := observedAttributes(replicaSetAttributes())
	for name := range replicaSetAttributes() {
		if observed[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	if !observed["manifests"].IsSensitive() {
		t.Error("manifests are not sensitive")
	}
}

// A wait that was met stays met, and one that wasn't can be by itself.
func TestObservedReplicaSetIsReady(t *testing.T) {
	for name, test := range map[string]struct {
		wait   *replicaSetWaitModel
		ready  types.Bool
		status metav1.ConditionStatus
		want   types.Bool
	}{
		"without a wait":   {nil, types.BoolNull(), metav1.ConditionTrue, types.BoolNull()},
		"still not":        {&replicaSetWaitModel{RolledOut: types.BoolValue(true)}, types.BoolValue(false), metav1.ConditionFalse, types.BoolValue(false)},
		"now":              {&replicaSetWaitModel{RolledOut: types.BoolValue(true)}, types.BoolValue(false), metav1.ConditionTrue, types.BoolValue(true)},
		"once and for all": {&replicaSetWaitModel{RolledOut: types.BoolValue(true)}, types.BoolValue(true), metav1.ConditionFalse, types.BoolValue(true)},
	} {
		t.Run(name, func(t *testing.T) {
			m := replicaSetModel{Manifests: types.ListNull(types.StringType), Fields: types.MapNull(fieldsElement()), Wait: test.wait, Ready: test.ready}
			if err := m.observe(reported(test.status, 3), nil); err != nil {
				t.Fatal(err)
			}
			if !m.Ready.Equal(test.want) {
				t.Errorf("got %s, want %s", m.Ready, test.want)
			}
		})
	}
}

// A summary's numbers have to arrive under their names.
func TestReplicaSetSummary(t *testing.T) {
	got := replicaSetSummary(workv1alpha1.ManifestWorkReplicaSetSummary{Total: 1, Applied: 2, Available: 3, Progressing: 4, Degraded: 5})
	for name, want := range map[string]int64{"total": 1, "applied": 2, "available": 3, "progressing": 4, "degraded": 5} {
		if !got.Attributes()[name].Equal(types.Int64Value(want)) {
			t.Errorf("%s is %s, want %d", name, got.Attributes()[name], want)
		}
	}
}
