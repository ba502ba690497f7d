package team_test

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/hubtest"
)

// start starts a hub, where acceptance tests are asked for.
func start(t *testing.T, options hubtest.Options) *hubtest.Hub {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("set TF_ACC=1: it starts a hub and runs Terraform")
	}
	return hubtest.Start(t, options)
}

// send sends a request to the hub, as a colleague with kubectl would, and returns
// the answer. Any client of Kubernetes does as well.
func send(t *testing.T, hub *hubtest.Hub, method, path, body string) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", hub.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	url := config.Host + "/apis/cluster.open-cluster-management.io/" + path
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/merge-patch+json")
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return string(text)
}

func patch(t *testing.T, hub *hubtest.Hub, path, body string) {
	t.Helper()
	send(t, hub, http.MethodPatch, path, body)
}

func remove(t *testing.T, hub *hubtest.Hub, path string) {
	t.Helper()
	send(t, hub, http.MethodDelete, path, "")
}

// waitFor waits until an answer of the hub has the text in it.
func waitFor(t *testing.T, hub *hubtest.Hub, path, text string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		answer := send(t, hub, http.MethodGet, path, "")
		if strings.Contains(answer, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has no %s: %s", path, text, answer)
		}
	}
}
