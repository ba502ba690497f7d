package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// print writes the tables of a workload.
func (r result) print(out io.Writer) {
	say(out, "\n%d %s: seconds, CPU seconds of Terraform and the provider together, and of the hub meanwhile, which shares the machine\n", r.objects, r.what)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	say(t, "phase\tmuster\tno-op\tratio\tCPU muster\tCPU no-op\tratio\tCPU hub\t\n")
	for i, phase := range phases() {
		m, n := median(r.muster[i], wall), median(r.noop[i], wall)
		mc, nc := median(r.muster[i], cpu), median(r.noop[i], cpu)
		say(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", phase.name, m, n, m/n, mc, nc, mc/nc, median(r.muster[i], hub))
	}
	_ = t.Flush()
	say(out, "requests for each object\n")
	t = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	say(t, "phase\tget\tlist\twatch\tdry run\twrite\tKB answered\tconnections in all\t\n")
	for i, phase := range phases() {
		q := r.requests[i]
		each := func(count int) float64 { return float64(count) / float64(r.objects) }
		say(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t\n", phase.name,
			each(q.gets), each(q.lists), each(q.watches), each(q.dryRuns), each(q.writes), float64(q.answered)/1024/float64(r.objects), q.connections)
	}
	_ = t.Flush()
	say(out, "state: %d bytes for each object, %d with the no-op provider\n", r.state/int64(r.objects), r.noopState/int64(r.objects))
}

// say prints to the standard output; nobody reads it if that fails.
func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
