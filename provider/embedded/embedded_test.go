package embedded_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
)

// hubWith is an API server with one placement.
func hubWith(t *testing.T) *httptest.Server {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/shop/placements/where" {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no rights"}`))
			return
		}
		_, _ = w.Write([]byte(`{"kind":"Placement","apiVersion":"cluster.open-cluster-management.io/v1beta1","metadata":{"name":"where","namespace":"shop"},"spec":{"numberOfClusters":2}}`))
	}))
	t.Cleanup(api.Close)
	return api
}

func TestAnObjectIsImportedAsByTerraform(t *testing.T) {
	provider, err := embedded.New(t.Context(), "test", map[string]any{"host": hubWith(t).URL})
	if err != nil {
		t.Fatal(err)
	}
	imported, err := provider.Import(t.Context(), "muster_placement", "shop/where")
	if err != nil {
		t.Fatal(err)
	}
	if imported.Identity["namespace"] != "shop" || imported.Identity["name"] != "where" {
		t.Errorf("its identity is %v", imported.Identity)
	}
	attributes := map[string]tftypes.Value{}
	if err := imported.State.As(&attributes); err != nil {
		t.Fatal(err)
	}
	if want := tftypes.NewValue(tftypes.Number, 2); !attributes["number_of_clusters"].Equal(want) {
		t.Errorf("number_of_clusters is %s", attributes["number_of_clusters"])
	}
}

func TestErrorsAreThoseOfTheProvider(t *testing.T) {
	provider, err := embedded.New(t.Context(), "test", map[string]any{"host": hubWith(t).URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = provider.Import(t.Context(), "muster_placement", "shop/other")
	var reported embedded.Diagnostic
	if !errors.As(err, &reported) || reported.Summary == "" || !strings.Contains(reported.Detail, "no rights") {
		t.Errorf("got %v", err)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	provider, err := embedded.New(t.Context(), "test", map[string]any{"host": hubWith(t).URL})
	if err != nil {
		t.Fatal(err)
	}
	last := func(resource string, config map[string]any) error {
		var last error
		for _, err := range provider.ListResources(t.Context(), resource, config, 0) {
			last = err
		}
		return last
	}
	_, unknownKey := embedded.New(t.Context(), "test", map[string]any{"hots": "x"})
	_, wrongType := embedded.New(t.Context(), "test", map[string]any{"insecure": "maybe"})
	for want, err := range map[string]error{
		`unsupported attribute "hots"`:                       unknownKey,
		`AttributeName("insecure"): unsupported type string`: wrongType,
		`the provider has no list resource "muster_nothing"`: last("muster_nothing", nil),
		`the provider has no action "muster_nothing"`:        provider.InvokeAction(t.Context(), "muster_nothing", nil, nil),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
