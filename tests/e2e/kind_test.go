package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/fleet"
)

// requireKindEnv, set to 1, turns the skipping of tests that need a container
// engine into a failure, so that a run that is meant to have one cannot pass
// without it.
const requireKindEnv = "REQUIRE_KIND"

// A cluster in a container joins with nothing but what `muster up --driver kind`
// does: the hub is where pods reach it, and the agent's image is on the node.
func TestKindClusterRunsTheAgentAsAPod(t *testing.T) {
	_, err := fleet.NewKind(filepath.Join(t.TempDir(), "clusters"))
	skipWithoutKind(t, err)
	members, err := tryUpFleet(t, fleet.UpOptions{Driver: fleet.DriverKind, Clusters: 1, Notice: func(s string) { t.Log(s) }})
	skipWithoutKind(t, err)
	hub, managed := admin(t, members[0]), admin(t, members[1])
	image := klusterlet.DefaultImage()
	join(t, hub, managed, "cluster1", image)
	runWork(t, hub, managed, "cluster1", image)
	letIn(t, hub, managed, "cluster1")
}

// skipWithoutKind skips the test when kind can make no cluster on this machine,
// and fails it on any other error.
func skipWithoutKind(t *testing.T, err error) {
	t.Helper()
	var unavailable *fleet.KindUnavailableError
	switch {
	case err == nil:
	case errors.As(err, &unavailable) && os.Getenv(requireKindEnv) != "1":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}
