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

func TestFailures(t *testing.T) {
	for name, x := range map[string]struct {
		work *workv1.ManifestWork
		want string
		is   severity
	}{
		"applied":                       {failingWork(2), "", passing},
		"what the server can't read":    {failingWork(2, "spec.replicas: expected int"), "Deployment shop/web: spec.replicas: expected int", lasting},
		"of an earlier generation":      {failingWork(1, "spec.replicas: expected int"), "", passing},
		"without a generation":          {failingWork(0, "no"), "Deployment shop/web: no", lasting},
		"one that may pass beside":      {failingWork(2, "no", `namespaces "shop" not found`), "Deployment shop/web: no\nDeployment shop/web: namespaces \"shop\" not found", passing},
		"one that may pass before":      {failingWork(2, `namespaces "shop" not found`, "no"), "Deployment shop/web: namespaces \"shop\" not found\nDeployment shop/web: no", passing},
		"one that does not pass beside": {failingWork(2, `namespaces "shop" not found`, `x is invalid: y`), "Deployment shop/web: namespaces \"shop\" not found\nDeployment shop/web: x is invalid: y", definite},
		"nothing reported":              {&workv1.ManifestWork{}, "", passing},
	} {
		if got, is := failure(x.work); got != x.want || is != x.is {
			t.Errorf("%s: got %q, %d, want %q, %d", name, got, is, x.want, x.is)
		}
	}
}

func TestSeverities(t *testing.T) {
	for message, want := range map[string]severity{
		`no matches for kind "ConfigMapp" in version "v1"`:                                                                                     definite,
		`no matches for kind "Deploy" in version "apps/v1"`:                                                                                    definite,
		`no matches for kind "Shop" in version "example.com/v1"`:                                                                               lasting,
		`Deployment.apps "web" is invalid: spec.selector: Invalid value: field is immutable`:                                                   definite,
		`Job.batch "x" is invalid: spec.template: field is immutable`:                                                                          definite,
		`configmaps "x" is forbidden: User "a" cannot create resource "configmaps" in API group "" in the namespace "shop"`:                    definite,
		`pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged`:                                                          definite,
		`pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`:                                           lasting,
		`configmaps "x" is forbidden: unable to create new content in namespace shop because it is being terminated`:                           passing,
		`pods "x" is forbidden: error looking up service account shop/default: serviceaccount "default" not found`:                             passing,
		`Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field .spec of type int32`: definite,
		`failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): .spec.replica: field not declared in schema`:                definite,
		`namespaces "shop" not found`: passing,
		`Internal error occurred: failed calling webhook "x": connection refused`:                           passing,
		`admission webhook "x" denied the request: spec is invalid: no`:                                     lasting,
		`Apply failed with 1 conflict: conflict with "kubectl" using v1: .data.a`:                           lasting,
		`Post "https://10.0.0.1": net/http: TLS handshake timeout`:                                          passing,
		`Operation cannot be fulfilled on x: the object has been modified; please apply your changes again`: passing,
	} {
		if got := severityOf("Failed to apply manifest: " + message); got != want {
			t.Errorf("%s: got %d, want %d", message, got, want)
		}
	}
}

// A work that can't be applied ends the wait for it, and one that recovers in
// time does not.
func TestWaitsEndWithALastingFailure(t *testing.T) {
	wait := func(after time.Duration, states ...*workv1.ManifestWork) (text string, err error) {
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
		err = waitForWork(t.Context(), client, object, wanted, func(severity) time.Duration { return after })
		return describeWork(context.Background(), client, object, wanted, 10*time.Minute, err, workload.Places{"apps/v1/Deployment shop/web": "objects[1]"}), err
	}
	text, err := wait(10*time.Millisecond, failingWork(2, "spec.replicas: expected int"))
	if !isFailure(err) || hub.IsTimeout(err) {
		t.Fatalf("got %v, want a failure", err)
	}
	for _, want := range []string{"The agent can't apply it", "Deployment shop/web (objects[1]): Applied is False", "has reported the same errors for 10ms", "spec.replicas: expected int"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text is\n%s\nwant it to have %q", text, want)
		}
	}
	if _, err := wait(time.Hour, failingWork(2, "no"), failingWork(2)); err != nil {
		t.Errorf("a work that recovers: got %v", err)
	}
}

// A change of a work that is Complete is not waited for.
func TestACompleteWorkIsNotAppliedAgain(t *testing.T) {
	complete := func(observed int64, rules ...workv1.ConditionRule) *workv1.ManifestWork {
		w := failingWork(1)
		w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{Type: "Complete", Status: metav1.ConditionTrue, ObservedGeneration: observed})
		w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{ConditionRules: rules}}
		return w
	}
	rule := workv1.ConditionRule{Condition: "Complete"}
	for name, x := range map[string]struct {
		work *workv1.ManifestWork
		want severity
	}{
		"before the change":     {complete(1, rule), definite},
		"after it":              {complete(2, rule), passing},
		"and the rule was lost": {complete(1), passing},
	} {
		if text, is := failure(x.work); is != x.want || (is == definite) != strings.Contains(text, "The work is Complete") {
			t.Errorf("%s: got %q, %d", name, text, is)
		}
	}
}
