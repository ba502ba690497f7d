package e2e

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/fleet"
)

func TestDevclusterJoinsAndRunsWork(t *testing.T) {
	members := upFleet(t, fleet.UpOptions{Clusters: 1, Driver: fleet.DriverDevcluster})
	hub, managed := admin(t, members[0]), admin(t, members[1])
	join(t, hub, managed, "cluster1", "")
	runWork(t, hub, managed, "cluster1", "muster")
	letIn(t, hub, managed, "cluster1")
}

// upFleet brings up a fleet that is stopped at the test's end.
func upFleet(t *testing.T, o fleet.UpOptions) []fleet.Member {
	t.Helper()
	members, err := tryUpFleet(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return members
}

// tryUpFleet is upFleet for those who have a use for the error.
func tryUpFleet(t *testing.T, o fleet.UpOptions) ([]fleet.Member, error) {
	t.Helper()
	f, err := fleet.Open(filepath.Join(t.TempDir(), "fleet"), muster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer f.Close()
		if _, err := f.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f.Up(t.Context(), o)
}
