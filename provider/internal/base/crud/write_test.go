package crud

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
)

// As when a resource gets another address: the new one finds the object, and the old
// one deletes it while the new one compares.
func TestAnObjectThatIsDeletedWhileItIsComparedIsCreated(t *testing.T) {
	var asked []string
	exists := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := r.Method
		status := strings.HasSuffix(r.URL.Path, "/status")
		if r.URL.Query().Get("dryRun") != "" {
			request += " dry run"
		}
		if status {
			request += " of the status"
			exists = false
		}
		asked = append(asked, request)
		code := http.StatusOK
		answer := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure}
		switch {
		case request == "PATCH" && exists: // it is to be created, and is there
			code, answer.Reason = http.StatusConflict, metav1.StatusReasonConflict
		case !exists && request != "PATCH":
			code, answer.Reason, answer.Details = http.StatusNotFound, metav1.StatusReasonNotFound, &metav1.StatusDetails{Name: "s"}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if code != http.StatusOK {
			answer.Code = int32(code) //nolint:gosec // a status code
			_ = json.NewEncoder(w).Encode(answer)
			return
		}
		set := clusterv1beta2.ManagedClusterSet{TypeMeta: metav1.TypeMeta{Kind: "ManagedClusterSet", APIVersion: clusterv1beta2.GroupVersion.String()}}
		set.Name, set.UID, set.ResourceVersion = "s", "u", "7"
		_ = json.NewEncoder(w).Encode(set)
	}))
	defer server.Close()
	scheme := runtime.NewScheme()
	kinds.AddToScheme(scheme, kinds.Provider())
	client, err := kube.New(&rest.Config{Host: server.URL}, kube.Options{Scheme: scheme, Mapper: restmapper.Static()})
	if err != nil {
		t.Fatal(err)
	}
	set := &clusterv1beta2.ManagedClusterSet{}
	set.Name = "s"
	write := Write{Object: set, Status: set.DeepCopy(), Manager: "us", Force: true}
	if _, _, err := write.Create(t.Context(), client); err != nil {
		t.Errorf("not created: %v", err)
	}
	want := []string{"PATCH", "GET", "PATCH dry run", "PATCH dry run of the status", "GET", "PATCH"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}
