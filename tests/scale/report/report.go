// Package report has the results of a simulated fleet as they are stored, and writes them
// down for readers: tables in Markdown, with the figures of KubeFleet beside ours, and
// plots in SVG.
package report

import (
	"math"
	"slices"
	"time"
)

// Run is what one fleet went through.
type Run struct {
	// Muster is the version of the hub, and Date the day of the run (UTC).
	Muster string `json:"muster"`
	Date   string `json:"date"`
	// CPUs and MemoryMB are the machine's, which hub and simulator share; Load is the
	// average number of running processes in the minute before the run.
	CPUs     int     `json:"cpus"`
	MemoryMB float64 `json:"memoryMB"`
	Load     float64 `json:"load"`
	// Clusters, Placements and Rollouts are the sizes, LeaseSeconds how often an agent
	// gives a heartbeat.
	Clusters     int `json:"clusters"`
	Placements   int `json:"placements"`
	Rollouts     int `json:"rollouts"`
	LeaseSeconds int `json:"leaseSeconds"`
	// Note is what a reader has to know of the run beside that; people write it.
	Note  string `json:"note,omitempty"`
	Steps []Step `json:"steps"`
}

// Step is what one step of a run took, and what it cost.
type Step struct {
	// Name is what the step is chosen by, and What what happens in it.
	Name string `json:"name"`
	What string `json:"what"`
	// Missing says what a step was waiting for that did not come; empty if all did.
	Missing string `json:"missing,omitempty"`
	// Seconds is how long the whole step took, Latency what its single attempts did.
	Seconds float64 `json:"seconds"`
	Latency Latency `json:"latency"`
	// Units is how much was done, counted in Unit.
	Units int    `json:"units"`
	Unit  string `json:"unit"`
	// HubCPUSeconds is the hub's CPU time in the step and until its queues were empty, and
	// HubCores the part of it in Seconds, by Seconds. SimulatorCPUSeconds is what the agents
	// and their clusters used.
	HubCPUSeconds       float64 `json:"hubCPUSeconds"`
	HubCores            float64 `json:"hubCores"`
	SimulatorCPUSeconds float64 `json:"simulatorCPUSeconds"`
	// MemoryHighestMB and MemoryAfterMB are the hub's anonymous memory; StoreMB is the size
	// of the store's file after the step.
	MemoryHighestMB float64 `json:"memoryHighestMB"`
	MemoryAfterMB   float64 `json:"memoryAfterMB"`
	StoreMB         float64 `json:"storeMB"`
	// Writes is how often the store was written, and Requests the hub's requests that
	// write, by verb and resource.
	Writes   int64              `json:"writes"`
	Requests map[string]float64 `json:"requests,omitempty"`
	// FalseUnknowns counts clusters that the hub called unknown though their agents ran.
	FalseUnknowns int `json:"falseUnknowns"`
	// Values are further figures of the step, by name.
	Values map[string]float64 `json:"values,omitempty"`
}

// CPUPerUnit is the hub's CPU time for one unit, in milliseconds.
func (s Step) CPUPerUnit() float64 { return 1000 * s.HubCPUSeconds / float64(max(1, s.Units)) }

// WritesPerUnit is how often the store is written for one unit.
func (s Step) WritesPerUnit() float64 { return float64(s.Writes) / float64(max(1, s.Units)) }

// Latency sums up how long attempts took, in seconds.
type Latency struct {
	Attempts int     `json:"attempts"`
	Least    float64 `json:"least"`
	P50      float64 `json:"p50"`
	P90      float64 `json:"p90"`
	Most     float64 `json:"most"`
}

// NewLatency sums up what attempts took. A percentile is the smallest attempt that as many
// of them do not exceed.
func NewLatency(attempts []time.Duration) Latency {
	if len(attempts) == 0 {
		return Latency{}
	}
	sorted := slices.Sorted(slices.Values(attempts))
	at := func(part float64) float64 {
		return sorted[max(0, int(math.Ceil(part*float64(len(sorted))))-1)].Seconds()
	}
	return Latency{Attempts: len(sorted), Least: at(0), P50: at(0.5), P90: at(0.9), Most: at(1)}
}

// step is the step of a name, if the run has it.
func (r Run) step(name string) (Step, bool) {
	i := slices.IndexFunc(r.Steps, func(s Step) bool { return s.Name == name })
	if i < 0 {
		return Step{}, false
	}
	return r.Steps[i], true
}
