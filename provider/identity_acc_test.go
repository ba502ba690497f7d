package provider_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// Terraform 1.12 and later import by identity.
func TestImportByIdentity(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/shop/placements/where" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Placement","apiVersion":"cluster.open-cluster-management.io/v1beta1","metadata":{"name":"where","namespace":"shop"},"spec":{"numberOfClusters":2}}`))
	}))
	t.Cleanup(api.Close)
	server := acctest.ConfiguredServer(t, api.URL)

	identity := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"namespace": tftypes.String, "name": tftypes.String}}
	value, err := tfprotov6.NewDynamicValue(identity, tftypes.NewValue(identity, map[string]tftypes.Value{
		"namespace": tftypes.NewValue(tftypes.String, "shop"),
		"name":      tftypes.NewValue(tftypes.String, "where"),
	}))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.ImportResourceState(t.Context(), &tfprotov6.ImportResourceStateRequest{
		TypeName: "muster_placement",
		Identity: &tfprotov6.ResourceIdentityData{IdentityData: &value},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range resp.Diagnostics {
		t.Fatalf("%s: %s", d.Summary, d.Detail)
	}
	if len(resp.ImportedResources) != 1 {
		t.Fatalf("imported %d resources", len(resp.ImportedResources))
	}
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	state, err := resp.ImportedResources[0].State.Unmarshal(schemas.ResourceSchemas["muster_placement"].ValueType())
	if err != nil {
		t.Fatal(err)
	}
	attributes := map[string]tftypes.Value{}
	if err := state.As(&attributes); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]tftypes.Value{
		"namespace":          tftypes.NewValue(tftypes.String, "shop"),
		"name":               tftypes.NewValue(tftypes.String, "where"),
		"number_of_clusters": tftypes.NewValue(tftypes.Number, 2),
	} {
		if !attributes[name].Equal(want) {
			t.Errorf("%s is %s, want %s", name, attributes[name], want)
		}
	}
}
