package manifestwork

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// failingWork is a work of generation 2 whose agent reports messages for objects
// that it can't apply.
func failingWork(observed int64, messages ...string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{}
	w.APIVersion, w.Kind = "work.open-cluster-management.io/v1", "ManifestWork"
	w.Namespace, w.Name, w.Generation, w.ResourceVersion = "paris", "web", 2, "7"
	applied := metav1.Condition{Type: "Applied", Status: metav1.ConditionTrue, ObservedGeneration: observed}
	for _, m := range messages {
		applied.Status = metav1.ConditionFalse
		w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
			Conditions:   []metav1.Condition{{Type: "Applied", Status: metav1.ConditionFalse, Message: m}},
		})
	}
	w.Status.Conditions = []metav1.Condition{applied}
	return w
}

// A work that can't be applied ends the wait for it, and one that recovers in
// time does not.
func TestWaitsEndWithALastingFailure(t *testing.T) {
	wait := func(after time.Duration, states ...*workv1.ManifestWork) (text string) {
		t.Helper()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Query().Get("watch") == "" {
				_ = json.NewEncoder(w).Encode(states[0])
				return
			}
			for _, s := range states[1:] {
				_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": s})
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}))
		defer server.Close()
		defer server.CloseClientConnections()
		var diags diag.Diagnostics
		client := hub.New(kube.Connection{Host: server.URL}, nil, "test").Client(&diags)
		if diags.HasError() {
			t.Fatal(diags)
		}
		object := failingWork(2)
		m := &waitModel{Conditions: textValues([]string{"Applied"})}
		w := m.wait(client, object, 10*time.Minute, workload.Places{"apps/v1/Deployment shop/web": "objects[1]"})
		w.Troubles = func() []kube.Trouble {
			troubles := workload.Troubles(object)
			for i := range troubles {
				troubles[i].After = after
			}
			return troubles
		}
		err := w.Until(t.Context())
		var gaveUp *kube.GaveUpError
		if err != nil && !errors.As(err, &gaveUp) {
			t.Fatalf("got %v, want a failure", err)
		}
		if gaveUp == nil {
			return ""
		}
		return w.Describe(t.Context(), gaveUp, time.Now())
	}
	text := wait(10*time.Millisecond, failingWork(2, "spec.replicas: expected int"))
	for _, want := range []string{"The agent can't apply it", "Deployment shop/web (objects[1]): Applied is False", "has reported the same errors for 10ms", "spec.replicas: expected int"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text is\n%s\nwant it to have %q", text, want)
		}
	}
	if text := wait(time.Hour, failingWork(2, "no"), failingWork(2)); text != "" {
		t.Errorf("a work that recovers: got %s", text)
	}
}
