package replicaset_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// Terraform 1.12 and later import by identity.
func TestReplicaSetImportByIdentity(t *testing.T) {
	hub := newReplicaSetHub(t)
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	object.Namespace, object.Name = "shop", "web"
	object.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "europe"}}
	hub.Apply(object)
	hub.report(metav1.ConditionTrue, present)

	server := acctest.ConfiguredServer(t, hub.url)
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
