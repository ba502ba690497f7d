package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/tests/scale/report"
)

// reading is what the hub has done, and the simulator, up to a moment.
type reading struct {
	at        time.Time
	cpu, self time.Duration
	revision  int64
	requests  usage
	unknowns  int
}

func (s *simulation) read(ctx context.Context) (reading, error) {
	r := reading{at: time.Now(), cpu: s.cpu(), self: ownCPU(), unknowns: int(s.falseUnknowns.Load())}
	var err error
	if r.requests, err = s.hub.used(ctx); err != nil {
		return r, err
	}
	list := &corev1.NamespaceList{}
	if err := s.hub.client.List(ctx, list, client.Limit(1)); err != nil {
		return r, err
	}
	// The version of a list is the store's revision, which each write makes one greater.
	r.revision, err = strconv.ParseInt(list.ResourceVersion, 10, 64)
	return r, err
}

// cpu is the CPU time of the hub, over its restarts.
func (s *simulation) cpu() time.Duration { return s.before + s.hub.cpu() }

func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// storeMB is the size of the store's file.
func (s *simulation) storeMB() float64 {
	info, err := os.Stat(filepath.Join(s.dir, "hub", "etcd", "member", "snap", "db"))
	if err != nil {
		return 0
	}
	return mb(info.Size())
}

// measured is a step while it runs.
type measured struct {
	attempts []time.Duration
	values   map[string]float64
}

// attempt notes how long something took.
func (m *measured) attempt(begin time.Time) { m.attempts = append(m.attempts, time.Since(begin)) }

// note notes percentiles of some times under a name.
func (m *measured) note(what string, times []time.Duration) {
	l := report.NewLatency(times)
	m.values[what+", p50"], m.values[what+", p90"] = l.P50, l.P90
}

// measure takes a step, and says what it took and cost.
func (s *simulation) measure(ctx context.Context, st step) (report.Step, error) {
	result := report.Step{Name: st.name, What: st.what, Unit: st.unit}
	m := &measured{values: map[string]float64{}}
	before, err := s.read(ctx)
	if err != nil {
		result.Missing = err.Error()
		return result, err
	}
	watching, stop := context.WithCancel(ctx)
	highest := make(chan float64)
	go func() {
		most := 0.0
		for ; watching.Err() == nil; time.Sleep(100 * time.Millisecond) {
			most = max(most, s.hub.anonymous())
		}
		highest <- most
	}()
	profiled := s.profile(watching, st.name)
	err = st.run(s, ctx, m)
	result.Seconds = time.Since(before.at).Seconds()
	result.HubCores = (s.cpu() - before.cpu).Seconds() / result.Seconds
	if err == nil {
		err = s.idle(ctx)
	}
	stop()
	<-profiled
	result.MemoryHighestMB = <-highest
	after, readErr := s.read(ctx)
	if err == nil {
		err = readErr
	}
	if readErr != nil { // the hub is gone, and nothing can be said of it
		result.Missing = err.Error()
		return result, err
	}
	if after.requests.writes < before.requests.writes { // the hub was restarted, and counts from zero
		before.requests = usage{}
	}
	result.Latency, result.Values, result.Units = report.NewLatency(m.attempts), m.values, st.units(s)
	result.HubCPUSeconds = (after.cpu - before.cpu).Seconds()
	result.SimulatorCPUSeconds = (after.self - before.self).Seconds()
	result.MemoryAfterMB, result.StoreMB, result.Writes = s.hub.anonymous(), s.storeMB(), after.revision-before.revision
	result.MemoryHighestMB = max(result.MemoryHighestMB, result.MemoryAfterMB)
	result.Requests = after.requests.since(before.requests, 0).writesByKind()
	result.FalseUnknowns = after.unknowns - before.unknowns
	if err == nil && result.FalseUnknowns > 0 {
		err = fmt.Errorf("%d clusters were called unknown though their agents ran", result.FalseUnknowns)
	}
	if err != nil {
		result.Missing = err.Error()
	}
	return result, err
}

// profile takes CPU profiles of the hub, one after the other until ctx ends, and one of its
// heap then. Its result is closed afterwards. Each is short, so that a restart of the hub
// costs one of them only. Of the agents it takes one each, until ctx ends.
func (s *simulation) profile(ctx context.Context, name string) <-chan struct{} {
	done := make(chan struct{})
	if s.profiles == "" {
		close(done)
		return done
	}
	get := func(ctx context.Context, kind, file string) error {
		c, err := kubernetes.NewForConfig(s.hub.config)
		if err != nil {
			return err
		}
		content, err := c.RESTClient().Get().RequestURI("/debug/pprof/" + kind).DoRaw(ctx)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(s.profiles, name+file), content, 0o600)
	}
	agentsDone := s.profileAgents(name)
	go func() {
		defer close(done)
		defer agentsDone()
		for i := 0; ctx.Err() == nil; i++ {
			file := fmt.Sprintf("-cpu-%d.pprof", i)
			if err := get(context.WithoutCancel(ctx), "profile?seconds=5", file); err != nil {
				time.Sleep(time.Second) // the hub is being restarted
			}
		}
		_ = get(context.WithoutCancel(ctx), "heap", "-heap.pprof")
	}()
	return done
}

// profileAgents takes a CPU profile of this process until its result is called, which takes
// one of its heap.
func (s *simulation) profileAgents(name string) (end func()) {
	cpu, err := os.Create(filepath.Join(s.profiles, name+"-agents-cpu.pprof"))
	if err != nil {
		return func() {}
	}
	_ = pprof.StartCPUProfile(cpu)
	return func() {
		pprof.StopCPUProfile()
		_ = cpu.Close()
		if heap, err := os.Create(filepath.Join(s.profiles, name+"-agents-heap.pprof")); err == nil {
			_ = errors.Join(pprof.Lookup("heap").WriteTo(heap, 0), heap.Close())
		}
	}
}

func printStep(out io.Writer, r report.Step) {
	say := func(what, format string, args ...any) {
		_, _ = fmt.Fprintf(out, "%-48s %s\n", what, fmt.Sprintf(format, args...))
	}
	say(fmt.Sprintf("%s: %d %s", r.Name, r.Units, r.Unit),
		"%8.1f s, %.1f CPU s (%.1f ms each), %.0f MB at most, %.0f MB after, store %.0f MB, %d writes, "+
			"agents %.1f CPU s",
		r.Seconds, r.HubCPUSeconds, r.CPUPerUnit(), r.MemoryHighestMB, r.MemoryAfterMB, r.StoreMB, r.Writes,
		r.SimulatorCPUSeconds)
	if l := r.Latency; l.Attempts > 0 {
		say("", "%8.2f s p50, %.2f s p90, %.2f s least, %.2f s most of %d", l.P50, l.P90, l.Least, l.Most, l.Attempts)
	}
	if r.FalseUnknowns > 0 {
		say("", "%8d false Unknowns", r.FalseUnknowns)
	}
	for what, value := range r.Values {
		say("  "+what, "%8.2f", value)
	}
	if r.Missing != "" {
		say("  FAILED", "%s", r.Missing)
	}
}

// idle waits until the hub's controllers have nothing to do: their queues are empty, twice in a
// row.
func (s *simulation) idle(ctx context.Context) error {
	const often, enough = 300 * time.Millisecond, 2
	for begin, empty := time.Now(), 0; empty < enough; {
		busy, err := s.queued(ctx)
		if err != nil {
			return err
		}
		if empty++; busy > 0 {
			empty = 0
		}
		if time.Since(begin) > s.patience {
			return fmt.Errorf("%.0f objects are still in the queues of the hub's controllers after %s",
				busy, s.patience)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(often):
		}
	}
	return nil
}

// queued is how many objects wait for the hub's controllers, or are with them.
func (s *simulation) queued(ctx context.Context) (float64, error) {
	c, err := kubernetes.NewForConfig(s.hub.config)
	if err != nil {
		return 0, err
	}
	text, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the hub's metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	text = onlyOf(text, "controller_runtime_active_workers", "workqueue_depth")
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	busy := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			busy += m.GetGauge().GetValue()
		}
	}
	return busy, err
}

// onlyOf are the lines of metrics with one of the names. Parsing all of them costs the
// machine more than the hub's answer does.
func onlyOf(text []byte, names ...string) []byte {
	var kept []byte
	for line := range bytes.Lines(text) {
		for _, name := range names {
			if bytes.HasPrefix(line, []byte(name)) || bytes.HasPrefix(line, []byte("# TYPE "+name+" ")) {
				kept = append(kept, line...)
			}
		}
	}
	return kept
}
