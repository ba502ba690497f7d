package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/tests/scale/report"
)

func TestNewLatency(t *testing.T) {
	var ten []time.Duration
	for i := 10; i > 0; i-- {
		ten = append(ten, time.Duration(i)*time.Second)
	}
	for name, c := range map[string]struct {
		attempts []time.Duration
		want     report.Latency
	}{
		"none":  {},
		"one":   {ten[:1], report.Latency{Attempts: 1, Least: 10, P50: 10, P90: 10, Most: 10}},
		"three": {ten[:3], report.Latency{Attempts: 3, Least: 8, P50: 9, P90: 10, Most: 10}},
		"ten":   {ten, report.Latency{Attempts: 10, Least: 1, P50: 5, P90: 9, Most: 10}},
	} {
		if got := report.NewLatency(c.attempts); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func runs() []report.Run {
	step := func(name string, p90, ms float64) report.Step {
		return report.Step{
			Name: name, What: "what " + name + " is", Unit: "units", Units: 1000, HubCPUSeconds: ms, HubCores: 0.5,
			Seconds: 12, Latency: report.Latency{Attempts: 10, Least: p90 / 2, P50: p90, P90: p90, Most: p90},
			MemoryHighestMB: 1234, MemoryAfterMB: 800, StoreMB: 90, Writes: 2500,
		}
	}
	failed := step("storm", 1, 1)
	failed.Missing = "999 of 1000 are back"
	return []report.Run{
		{Muster: "v1", Clusters: 100, Placements: 10, Steps: []report.Step{step("join", 1, 20)}},
		{Muster: "v1", Clusters: 1000, Placements: 10, Steps: []report.Step{
			step("join", 2, 30), step("placement", 0.8, 5), failed,
		}},
	}
}

func TestMarkdown(t *testing.T) {
	all := runs()
	page := report.Markdown(all, report.Plots(all))
	for _, want := range []string{
		"| what placement is | 0.80 s (0.40 s) | 20 s (9 s) | 0.50 cores, 1,234 MB |", // KubeFleet's beside ours
		"30.0 ms of 1,000 units | 1,234 / 800 MB | 90 MB | 2.5 |",
		"failed after 12.0 s",
		"| 0.80 / 0.80 / 0.40 s of 10 |",
		"This run is not of KubeFleet's size",
		"Missing in “what storm is”: 999 of 1000 are back",
		"](cpu.svg)",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q:\n%s", want, page)
		}
	}
	if strings.Index(page, "## 1,000 clusters") > strings.Index(page, "## 100 clusters") {
		t.Error("the largest fleet does not come first")
	}
}

// A plot is an image that parses, with a line over all sizes, and without steps that failed.
func TestSVG(t *testing.T) {
	for _, plot := range report.Plots(runs()) {
		image := plot.SVG()
		for parser := xml.NewDecoder(strings.NewReader(image)); ; {
			if _, err := parser.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v\n%s", plot.File, err, image)
			}
		}
		if strings.Contains(image, "storm") {
			t.Errorf("%s shows a step that failed", plot.File)
		}
		if plot.File == "cpu.svg" && (strings.Count(image, "<circle") != 2 || !strings.Contains(image, "join")) {
			t.Errorf("%s does not show both joins:\n%s", plot.File, image)
		}
	}
}
