package manifestwork

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
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
			ResourceMeta: workv1.ManifestResourceMeta{Kind: "Deployment", Namespace: "shop", Name: "web"},
			Conditions:   []metav1.Condition{{Type: "Applied", Status: metav1.ConditionFalse, Message: m}},
		})
	}
	w.Status.Conditions = []metav1.Condition{applied}
	return w
}

func TestFailuresThatDoNotPass(t *testing.T) {
	for name, x := range map[string]struct {
		work *workv1.ManifestWork
		want string
	}{
		"applied":                        {failingWork(2), ""},
		"what the server refuses":        {failingWork(2, "spec.replicas: expected int"), "Deployment shop/web: spec.replicas: expected int"},
		"of an earlier generation":       {failingWork(1, "spec.replicas: expected int"), ""},
		"without a generation":           {failingWork(0, "no"), "Deployment shop/web: no"},
		"a namespace that may yet come":  {failingWork(2, `namespaces "shop" not found`), ""},
		"a definition that may yet come": {failingWork(2, `no matches for kind "Shop" in version "a/v1"`), ""},
		"both kinds":                     {failingWork(2, "no", `namespaces "shop" not found`), ""},
		"nothing reported":               {&workv1.ManifestWork{}, ""},
	} {
		if got := failure(x.work); got != x.want {
			t.Errorf("%s: got %q, want %q", name, got, x.want)
		}
	}
}

// A work that can't be applied ends the wait for it, and one that recovers in
// time does not.
func TestWaitsEndWithALastingFailure(t *testing.T) {
	wait := func(patience time.Duration, states ...*workv1.ManifestWork) (text string, err error) {
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
		wanted := []attribute.WaitCondition{{Type: "Applied", Status: metav1.ConditionTrue}}
		err = waitForWork(t.Context(), client, object, wanted, patience)
		return describeWork(context.Background(), client, object, wanted, 10*time.Minute, err), err
	}
	text, err := wait(10*time.Millisecond, failingWork(2, "spec.replicas: expected int"))
	if !isFailure(err) || hub.IsTimeout(err) {
		t.Fatalf("got %v, want a failure", err)
	}
	for _, want := range []string{"The agent can't apply it", "Deployment shop/web: Applied is False", "spec.replicas: expected int"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text is\n%s\nwant it to have %q", text, want)
		}
	}
	if _, err := wait(time.Hour, failingWork(2, "no"), failingWork(2)); err != nil {
		t.Errorf("a work that recovers: got %v", err)
	}
}
