package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// kubeFleet is a row of KubeFleet's report, and the step here that it is compared with.
type kubeFleet struct{ step, latency, controllers, server, store string }

// KubeFleet's report of the first quarter of 2026: 1,000 clusters, 1,000 placements of 100
// clusters, its API server managed, its agents on two nodes of 16 cores.
var kubeFleetRows = []kubeFleet{
	{"rest", "", "0.09 cores, 234 MB", "0.66 cores, 1,392 MB", "119 MB"},
	{"placement", "20 s (9 s)", "", "", ""},
	{"restart-kill", "675 s (568 s)", "3.5 cores, 8 GB", "13 cores, 47 GB", "1.6 GB"},
	{"placement-again", "21 s (11 s)", "", "", ""},
	{"rollout", "96 s (91 s)", "", "", ""},
	{"rollouts", "135 s (116 s)", "5 cores, 11.2 GB", "8 cores, 31 GB", "< 1.6 GB"},
	{"placement-meanwhile", "30 s (19 s)", "", "", ""},
}

// Markdown is the page of all runs, the largest fleet first. plots are the files of their
// plots, with a title for each.
func Markdown(runs []Run, plots []Plot) string {
	runs = slices.SortedStableFunc(slices.Values(runs), func(a, b Run) int {
		return cmp.Or(cmp.Compare(b.Clusters, a.Clusters), cmp.Compare(b.Placements, a.Placements))
	})
	var b strings.Builder
	b.WriteString(head)
	for _, run := range runs {
		fmt.Fprintf(&b, "\n## %s clusters, %s placements\n\n", count(run.Clusters), count(run.Placements))
		fmt.Fprintf(&b, "muster %s, %s, on %d cores and %.0f GB that hub and simulator share; ", run.Muster, run.Date,
			run.CPUs, run.MemoryMB/1000)
		fmt.Fprintf(&b, "a heartbeat every %d s. ", run.LeaseSeconds)
		fmt.Fprintf(&b, "%.1f processes of others ran on average before it. %s\n\n", run.Load, run.Note)
		b.WriteString(compared(run))
		b.WriteString("\n")
		b.WriteString(steps(run))
	}
	if len(plots) > 0 {
		b.WriteString("\n## Growth\n")
	}
	for _, p := range plots {
		fmt.Fprintf(&b, "\n![%s](%s)\n", p.Title, p.File)
	}
	return b.String()
}

const head = `# A fleet on one hub

Written by ` + "`make scale`" + ` from the results in this folder. The agents are real: the loops of the agent's own
program, its certificates, and one connection each to the hub. Their clusters are in memory, in the same process, so
that a step's cost is the hub's. What the agents use stands beside it, as they share the machine's cores with the hub.

The store's writes are counted by its revision. The hub's memory is what is anonymous: heap and stacks. Its CPU time
counts until its queues are empty again, also after a step has what it waited for. Times are from the request until
the last cluster's report is in the status that a user reads.
`

// compared is KubeFleet's table with a run beside it.
func compared(run Run) string {
	var b strings.Builder
	b.WriteString("| step | muster: p90 (least) | KubeFleet: p90 (least) | muster: hub | " +
		"KubeFleet: controllers | its API server | store: muster, KubeFleet |\n|---|---|---|---|---|---|---|\n")
	for _, row := range kubeFleetRows {
		s, ok := run.step(row.step)
		if !ok {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %.2f cores, %s MB | %s | %s | %s |\n", s.What, latency(s), row.latency,
			s.HubCores, count(int(s.MemoryHighestMB)), row.controllers, row.server,
			strings.TrimSuffix(count(int(s.StoreMB))+" MB, "+row.store, ", "))
	}
	if run.Clusters != 1000 || run.Placements != 1000 {
		b.WriteString("\nThis run is not of KubeFleet's size: its figures stand beside those of 1,000 clusters and " +
			"100,000 works.\n")
	}
	b.WriteString("\nKubeFleet: its report of the first quarter of 2026, 1,000 clusters and 1,000 placements; " +
		"the hub is a managed Kubernetes with the controllers on two nodes of 16 cores and 64 GB.\n")
	return b.String()
}

func latency(s Step) string {
	switch {
	case s.Missing != "":
		return "failed"
	case s.Latency.Attempts == 0:
		return ""
	}
	return fmt.Sprintf("%s s (%s s)", digits(s.Latency.P90), digits(s.Latency.Least))
}

// steps is the table of all steps of a run.
func steps(run Run) string {
	var b strings.Builder
	b.WriteString("| step | took | p50 / p90 / least | hub's CPU | for each | hub's memory, highest / after | " +
		"store | writes for each | agents' CPU | false Unknowns |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range run.Steps {
		l, took := "", digits(s.Seconds)+" s"
		if s.Latency.Attempts > 0 {
			l = fmt.Sprintf("%s / %s / %s s of %s", digits(s.Latency.P50), digits(s.Latency.P90),
				digits(s.Latency.Least), count(s.Latency.Attempts))
		}
		if s.Missing != "" {
			took = "failed after " + took
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s s | %s ms of %s %s | %s / %s MB | %s MB | %s | %s s | %d |\n",
			s.What, took, l, digits(s.HubCPUSeconds), digits(s.CPUPerUnit()), count(s.Units), s.Unit,
			count(int(s.MemoryHighestMB)), count(int(s.MemoryAfterMB)), count(int(s.StoreMB)),
			digits(s.WritesPerUnit()), digits(s.SimulatorCPUSeconds), s.FalseUnknowns)
	}
	for _, s := range run.Steps {
		if s.Missing != "" {
			fmt.Fprintf(&b, "\nMissing in “%s”: %s\n", s.What, s.Missing)
		}
	}
	return b.String()
}

// digits is a figure with as many digits as mean something.
func digits(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 1:
		return fmt.Sprintf("%.2f", f)
	case f < 100:
		return fmt.Sprintf("%.1f", f)
	}
	return count(int(f + 0.5))
}

// count is a whole number with its thousands set apart.
func count(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", count(n/1000), n%1000)
}
