package controlplane_test

import (
	"strings"
	"testing"
)

// An API server that nobody asks for anything leaves its store alone: it has no
// peers that need to hear of it.
func TestServerDoesNotAnnounceItselfInItsStore(t *testing.T) {
	body, err := admin(t, shared).Discovery().RESTClient().Get().AbsPath("/livez").Param("verbose", "").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checks := string(body)
	if !strings.Contains(checks, "poststarthook/") {
		t.Fatalf("the checks do not say what runs: %s", checks)
	}
	for _, hook := range []string{"start-kube-apiserver-identity-lease-controller", "start-kube-apiserver-identity-lease-garbage-collector", "peer-endpoint-reconciler-controller"} {
		if strings.Contains(checks, "poststarthook/"+hook) {
			t.Errorf("%s runs", hook)
		}
	}
}
