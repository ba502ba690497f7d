package hubtest_test

import (
	"os"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/hubtest"
)

// A test gets a hub of its own, and two clusters that have joined it.
func ExampleStart() {
	_ = func(t *testing.T) { // func TestFleet(t *testing.T) {
		hub := hubtest.Start(t, hubtest.Options{Clusters: 2, Join: true})
		t.Setenv("MUSTER_KUBECONFIG", hub.Kubeconfig)
		// Test what uses the provider "muster", or any client of a hub.
		for _, cluster := range hub.Clusters {
			t.Logf("look into %s with kubectl --kubeconfig %s", cluster.Name, cluster.Kubeconfig)
		}
	}
}

// All tests of a package share one hub.
func ExampleMain() {
	_ = func(m *testing.M) { // func TestMain(m *testing.M) {
		os.Exit(hubtest.Main(m, hubtest.Options{}, func(hub *hubtest.Hub) {
			_ = os.Setenv("MUSTER_KUBECONFIG", hub.Kubeconfig)
		}))
	}
}
