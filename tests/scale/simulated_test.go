package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/tests/scale/report"
)

// A small fleet of real agents goes through all steps: none misses what it waits for, no
// cluster is called unknown while its agent runs, and the results are complete.
func TestSmallFleet(t *testing.T) {
	logging.Setup(t.Context(), io.Discard, 0, false)
	dir := t.TempDir()
	muster, err := (&testhub.Builder{}).Path(dir)
	testkit.Must(t, err)
	o := sizes{
		results:  filepath.Join(dir, "results.json"),
		clusters: 8, placements: 4, rollouts: 2, attempts: 1,
		lease: 5 * time.Second, settle: time.Second, patience: 2 * time.Minute,
	}
	testkit.Must(t, simulate(t.Context(), muster, o, t.Output()))
	text, err := os.ReadFile(o.results)
	testkit.Must(t, err)
	var stored report.Run
	testkit.Must(t, json.Unmarshal(text, &stored))
	if len(stored.Steps) != len(steps()) {
		t.Fatalf("%d steps are in the results, want %d", len(stored.Steps), len(steps()))
	}
	for i, st := range steps() {
		s := stored.Steps[i]
		if s.Name != st.name || s.Seconds <= 0 || s.Units <= 0 || s.HubCPUSeconds <= 0 || s.SimulatorCPUSeconds <= 0 ||
			s.MemoryHighestMB < s.MemoryAfterMB || s.MemoryAfterMB <= 0 || s.StoreMB <= 0 || s.FalseUnknowns != 0 {
			t.Errorf("the result of the step %s is not complete: %+v", st.name, s)
		}
	}
	if s := stored.Steps[0]; s.Latency.Attempts != o.clusters || s.Writes == 0 || len(s.Requests) == 0 {
		t.Errorf("the join of %d clusters is not complete: %+v", o.clusters, s)
	}
}

func TestChoose(t *testing.T) {
	chosen, err := choose([]string{"storm", "placement"})
	testkit.Must(t, err)
	var got []string
	for _, st := range chosen {
		got = append(got, st.name)
	}
	if strings.Join(got, " ") != "join placement storm" {
		t.Errorf("chosen are %v, want the join and the chosen ones in their order", got)
	}
	if _, err := choose([]string{"dance"}); err == nil || !strings.Contains(err.Error(), `"dance"`) {
		t.Errorf("an unknown step: %v", err)
	}
}
