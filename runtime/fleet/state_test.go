package fleet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestStateIsRemembered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.json")
	for run := range 2 {
		s, err := readState(path)
		if err != nil {
			t.Fatal(err)
		}
		if run == 0 {
			for _, name := range []string{"cluster10", "cluster2", "gone"} {
				if err := s.setCluster(name, clusterState{Driver: DriverDevcluster, Port: len(name)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.removeCluster("gone"); err != nil {
				t.Fatal(err)
			}
			if err := s.setHubPort(6443); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got := s.clusters(); !slices.Equal(got, []string{"cluster2", "cluster10"}) {
			t.Errorf("clusters %q", got)
		}
		if c, ok := s.cluster("cluster10"); !ok || c != (clusterState{Driver: DriverDevcluster, Port: 9}) || s.hubPort() != 6443 {
			t.Errorf("got %+v, %t, hub port %d", c, ok, s.hubPort())
		}
	}
}

func TestDamagedStateIsExplained(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.json")
	if err := os.WriteFile(path, []byte(`{"hubPort":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readState(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("got %v", err)
	}
}
