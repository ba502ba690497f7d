package kube_test

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

// pages answers a LIST with the sets a, b and c, one to a page. The state of the
// second page is forgotten when it is first asked for.
func pages(t *testing.T) (client *kube.Client, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := r.URL.Query().Get("continue")
		*asked = append(*asked, from)
		w.Header().Set("Content-Type", "application/json")
		next := map[string]string{"": "b", "b'": "c", "c": ""}
		if from == "b" {
			w.WriteHeader(http.StatusGone)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, ListMeta: metav1.ListMeta{Continue: "b'"},
				Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: http.StatusGone,
			})
			return
		}
		list := clusterv1beta2.ManagedClusterSetList{Items: []clusterv1beta2.ManagedClusterSet{{}}}
		list.Items[0].Name = map[string]string{"": "a", "b'": "b", "c": "c"}[from]
		list.Kind, list.APIVersion, list.Continue = "ManagedClusterSetList", clusterv1beta2.GroupVersion.String(), next[from]
		_ = json.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	kinds.AddToScheme(scheme, kinds.Provider())
	client, err := kube.New(&rest.Config{Host: server.URL}, kube.Options{Scheme: scheme, Mapper: restmapper.Static()})
	if err != nil {
		t.Fatal(err)
	}
	return client, asked
}

func TestPagesAreReadOneAfterTheOtherAsLongAsTheyAreWanted(t *testing.T) {
	for wanted, requests := range map[int][]string{
		1: {""},
		2: {"", "b", "b'"},
		9: {"", "b", "b'", "c"},
	} {
		client, asked := pages(t)
		var names []string
		err := client.Pages(t.Context(), &clusterv1beta2.ManagedClusterSetList{}, kube.ListOptions{}, 1, func(object kube.Object) bool {
			names = append(names, object.GetName())
			return len(names) < wanted
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"a", "b", "c"}[:min(wanted, 3)]; !slices.Equal(names, want) || !slices.Equal(*asked, requests) {
			t.Errorf("%d wanted: got %q by asking for %q", wanted, names, *asked)
		}
	}
}
