package hub

import (
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What a hub needs to serve a kind is said of that kind, and of no other.
func TestRemedyNamesWhatTheKindNeeds(t *testing.T) {
	for resource, want := range map[string]string{
		"managedclusters": "", "logicalclouds": AccessNeeds, "accessroles": AccessNeeds, "accessrequests": AccessNeeds, "clusterimports": ImportNeeds,
	} {
		err := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{Resource: resource}, "", "404 page not found", 0, true)
		got := remedy("https://hub", err)
		if !strings.Contains(got, "does not serve this kind") || want != "" && !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s", resource, got)
		}
		for _, other := range []string{AccessNeeds, ImportNeeds} {
			if other != want && strings.Contains(got, other) {
				t.Errorf("%s: %s", resource, got)
			}
		}
	}
}
