package crud

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
)

// dryRunServer answers each request by what it is: "GET", "PATCH" or "PATCH force".
// It has the object that nobody may write but by a dry run.
func dryRunServer(t *testing.T, answers map[string]metav1.Status, asked *[]string) *kube.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := r.Method
		if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") != metav1.DryRunAll {
			t.Errorf("it writes: %s %s", r.Method, r.URL)
		}
		if r.URL.Query().Get("force") == "true" {
			request += " force"
		}
		*asked = append(*asked, request)
		w.Header().Set("Content-Type", "application/json")
		status, refused := answers[request]
		if !refused {
			set := clusterv1beta2.ManagedClusterSet{TypeMeta: metav1.TypeMeta{Kind: "ManagedClusterSet", APIVersion: clusterv1beta2.GroupVersion.String()}}
			set.Name, set.UID, set.ResourceVersion = "s", "u", "7"
			_ = json.NewEncoder(w).Encode(set)
			return
		}
		status.TypeMeta, status.Status = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, metav1.StatusFailure
		w.WriteHeader(int(status.Code))
		_ = json.NewEncoder(w).Encode(status)
	}))
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	kinds.AddToScheme(scheme, kinds.Provider())
	client, err := kube.New(&rest.Config{Host: server.URL}, kube.Options{Scheme: scheme, Mapper: restmapper.Static()})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestADryRunAsksLittleAndWritesNothing(t *testing.T) {
	stale := metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}
	conflict := metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Details: &metav1.StatusDetails{
		Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec.x", Message: `conflict with "someone"`}},
	}}
	missing := metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Details: &metav1.StatusDetails{Name: "s"}}
	forbidden := metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "no"}
	invalid := metav1.Status{Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: "no"}
	for name, test := range map[string]struct {
		create, force bool
		answers       map[string]metav1.Status
		asked         []string
		exists, fails bool
		taken         int
	}{
		"new":                       {create: true, force: true, asked: []string{"PATCH force"}},
		"new and invalid":           {create: true, force: true, answers: map[string]metav1.Status{"PATCH force": invalid}, asked: []string{"PATCH force"}, fails: true},
		"new, by a reader":          {create: true, force: true, answers: map[string]metav1.Status{"PATCH force": forbidden, "GET": missing}, asked: []string{"PATCH force", "GET"}, fails: true},
		"existing, by a reader":     {create: true, force: true, answers: map[string]metav1.Status{"PATCH force": forbidden}, asked: []string{"PATCH force", "GET"}, fails: true, exists: true},
		"deleted a moment ago":      {create: true, force: true, answers: map[string]metav1.Status{"PATCH force": stale, "GET": missing}, asked: []string{"PATCH force", "GET"}},
		"changed":                   {force: true, asked: []string{"PATCH"}},
		"changed by force":          {force: true, answers: map[string]metav1.Status{"PATCH": conflict}, asked: []string{"PATCH", "PATCH force"}, taken: 1},
		"changed by force, invalid": {force: true, answers: map[string]metav1.Status{"PATCH": conflict, "PATCH force": invalid}, asked: []string{"PATCH", "PATCH force"}, taken: 1, fails: true},
		"changed without force":     {answers: map[string]metav1.Status{"PATCH": conflict}, asked: []string{"PATCH"}, fails: true},
		"changed, gone meanwhile":   {force: true, answers: map[string]metav1.Status{"PATCH": stale}, asked: []string{"PATCH"}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			client := dryRunServer(t, test.answers, &asked)
			set := &clusterv1beta2.ManagedClusterSet{}
			set.Name = "s"
			w := Write{Object: set, Manager: "us", Force: test.force}
			dryRun := w.DryRunUpdate
			if test.create {
				dryRun = w.DryRunCreate
			}
			run, err := dryRun(t.Context(), client, Claim{UID: "u"})
			if !slices.Equal(asked, test.asked) || (err != nil) != test.fails || (run.Live != nil) != test.exists || len(run.Taken) != test.taken {
				t.Errorf("asked %q, got %+v, %v", asked, run, err)
			}
		})
	}
}
