package hub

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

func TestWithAnUnknownHubTheErrorNamesTheAttributes(t *testing.T) {
	var diags diag.Diagnostics
	if client := New(kube.Connection{}, []string{"host", "token"}, "test").Client(&diags); client != nil {
		t.Fatal("a hub came out of unknown values")
	}
	if got := diags.Errors()[0].Detail(); !strings.Contains(got, "host, token") || !strings.Contains(got, "-target") {
		t.Errorf("got %q", got)
	}
}

func TestExplanationsSayWhatToDoNext(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusUnauthorized: "credentials",
		http.StatusForbidden:    "cluster role",
		http.StatusNotFound:     "does not serve this kind",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		var diags diag.Diagnostics
		client := New(kube.Connection{Host: server.URL}, nil, "test").Client(&diags)
		err := client.Get(t.Context(), &clusterv1.ManagedCluster{}, "", "c1")
		server.Close()
		if err == nil {
			t.Fatalf("%d is no error", status)
		}
		if got := Explain("https://hub", "do it", err); !strings.Contains(got, want) || !strings.Contains(got, "Could not do it on https://hub") {
			t.Errorf("%d: got %q, want it to say %q", status, got, want)
		}
	}
}

func TestWithoutAHubTheErrorSaysWhatToSet(t *testing.T) {
	var diags diag.Diagnostics
	if client := New(kube.Connection{Token: "x"}, nil, "test").Client(&diags); client != nil || !diags.HasError() {
		t.Fatal("a hub came out of nothing")
	}
	if got := diags.Errors()[0].Detail(); !regexp.MustCompile(`kubeconfig_path.*MUSTER_KUBECONFIG.*no fallback`).MatchString(got) {
		t.Errorf("got %q", got)
	}
}
