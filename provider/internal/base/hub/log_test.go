package hub

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-log/tflogtest"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

func TestRequestsAreLoggedWithoutWhatIsSecret(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"},"data":{"password":"aHVudGVyMg=="}}`))
	}))
	t.Cleanup(server.Close)
	var log bytes.Buffer
	ctx := tflogtest.RootLogger(t.Context(), &log)
	var diags diag.Diagnostics
	client := New(kube.Connection{Host: server.URL, Token: "my-bearer-token"}, nil, "test").Client(&diags)
	if diags.HasError() {
		t.Fatal(diags)
	}
	if err := client.Get(ctx, &corev1.Secret{}, "ns", "s"); err != nil {
		t.Fatal(err)
	}
	lines, err := tflogtest.MultilineJSONDecode(bytes.NewReader(log.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 1 || lines[0]["method"] != "GET" || lines[0]["path"] != "/api/v1/namespaces/ns/secrets/s" || lines[0]["status"] != float64(200) || lines[0]["duration_ms"] == nil {
		t.Errorf("got %v", lines)
	}
	for _, secret := range []string{"my-bearer-token", "aHVudGVyMg"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q: %s", secret, log.String())
		}
	}

	log.Reset()
	server.Close()
	away, err := NewClient(kube.Connection{Host: server.URL, Token: "my-bearer-token"}, "test", PlanRetryBudget)
	if err != nil {
		t.Fatal(err)
	}
	if err := away.Get(ctx, &corev1.Secret{}, "ns", "s"); err == nil {
		t.Error("a server that is away answers")
	}
	if !strings.Contains(log.String(), `"error"`) {
		t.Errorf("the failure is not logged: %s", log.String())
	}
}
