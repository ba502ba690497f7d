// Package gctuner sets the garbage collector of a control plane's process by its
// load.
//
// GOGC is how much may be allocated between two collections, as a percentage of
// the live heap. A collection costs the same with any percentage, so the
// percentage decides how often that is paid. A hub's live heap is almost all
// caches: at rest it hardly allocates, so a small percentage costs no CPU and
// saves memory. When many clusters join or report, a small percentage takes up
// to half of the CPU. So the percentage is small at rest and large under load,
// and what it allows beyond the live heap has an upper limit, which makes the
// percentage smaller again as the fleet grows.
//
// It imports nothing of muster.
package gctuner

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

const (
	// restPercent is GOGC at rest, and smallRestPercent that of a live heap below small
	// bytes, which is collected in a moment.
	restPercent, smallRestPercent = 50, 25
	small                         = 128 << 20
	// startPercent is the most that GOGC is for a small live heap during the first
	// startPeriods periods. What a start allocates is needed once, and the container has
	// to have room for it.
	startPercent, startPeriods = 100, 2
	// Under load as many bytes as the headroom may be allocated between two collections,
	// with GOGC between busyPercent, for a small live heap, and leastBusyPercent. The
	// headroom is a part of the memory that there is, within limits. All of it is for a
	// start, which is the largest load there is; later it is laterPercent at most, or
	// leastHeadroom.
	busyPercent, laterPercent, leastBusyPercent = 300, 100, 75
	headroomParts                               = 16
	leastHeadroom, mostHeadroom                 = 128 << 20, 1 << 30

	// busyShare is the share of one processor from which on collecting counts as
	// load, and restShare the one below which the load is over. Between them lies
	// what a change of the percentage itself changes.
	busyShare, restShare = 0.04, 0.01

	// period is how often the load is looked at, and window how many periods have to
	// be below restShare: a large heap is collected only a few times a minute.
	period = 5 * time.Second
	window = 6

	// limitShare is the part of a container's memory that the Go runtime may use;
	// the rest is for what it does not count.
	limitShare = 0.9
)

// Run sets GOGC by the load until ctx ends, and once the memory limit of the
// container that the process runs in, if there is one. The environment variables
// GOGC and GOMEMLIMIT each take precedence over what it would set. started is closed
// once the process has read what a start reads; nil says that this is little.
func Run(ctx context.Context, clk clock.WithTicker, started <-chan struct{}) {
	limit := containerLimit(os.ReadFile)
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(limitShare * float64(limit)))
	}
	if os.Getenv("GOGC") != "" {
		return
	}
	collections := make(chan struct{}, 1)
	afterEach(ctx, func() {
		select {
		case collections <- struct{}{}:
		default:
		}
	})
	t := tuner{
		headroom: headroomOf(limit, machineMemory(os.ReadFile)),
		read:     read, set: func(percent int) { debug.SetGCPercent(percent) }, free: debug.FreeOSMemory,
	}
	t.afterStart = started == nil
	t.run(ctx, clk, collections, started)
}

// usage is what the collector has cost so far, and what it keeps.
type usage struct {
	at   time.Time
	cpu  float64 // seconds, without those of processors that had nothing else to do
	live uint64  // bytes that the last collection has found in use
}

// tuner decides about the percentage.
type tuner struct {
	headroom uint64

	read func() usage
	set  func(percent int)
	free func() // gives memory back that only the load needed

	percent    int
	busy       bool
	afterStart bool    // the start is over, or its load is
	started    int     // how many periods there have been, startPeriods at most
	past       []usage // at most window+1, the oldest first
	last       usage   // after the last collection
}

// run decides every period, and after each collection.
func (t *tuner) run(ctx context.Context, clk clock.WithTicker, collections, started <-chan struct{}) {
	t.busy = true // a start is load
	t.apply(0)
	ticker := clk.NewTicker(period)
	defer ticker.Stop()
	t.observe(clk.Now())
	t.started = 0 // that was the beginning
	for {
		select {
		case <-ctx.Done():
			return
		case <-collections:
			t.collected(clk.Now())
			continue
		case <-started:
			t.afterStart, started = true, nil
			continue
		case <-ticker.C():
		}
		t.observe(clk.Now())
	}
}

// collected looks at what the last collection has cost, for the time since the one
// before. A load of a few seconds is over before an average over the window shows
// it.
func (t *tuner) collected(now time.Time) {
	u := t.read()
	u.at = now
	if !t.last.at.IsZero() && share(t.last, u) > busyShare {
		t.busy = true
	}
	t.last = u
	t.apply(u.live)
}

// observe takes one measurement and sets the percentage that follows from it.
func (t *tuner) observe(now time.Time) {
	u := t.read()
	u.at = now
	t.past = append(t.past, u)
	if len(t.past) > window+1 {
		t.past = t.past[1:]
	}
	before := t.busy
	switch share := share(t.past[0], u); {
	case share > busyShare:
		t.busy = true
	case share < restShare && len(t.past) == window+1:
		t.busy, t.afterStart = false, true
	}
	t.started = min(t.started+1, startPeriods)
	t.apply(u.live)
	if before && !t.busy {
		// Otherwise Go gives it back in the course of minutes, and only after the next
		// collection, which may be two minutes away. This one is not a load.
		t.free()
		t.last = t.read()
		t.last.at = now
	}
}

// apply sets the percentage for a live heap of that many bytes.
func (t *tuner) apply(live uint64) {
	headroom := t.headroom
	if t.afterStart {
		headroom = min(headroom, max(leastHeadroom, live*laterPercent/100))
	}
	percent := percentFor(t.busy, live, headroom)
	if t.started < startPeriods && live < small {
		percent = min(percent, startPercent)
	}
	if percent != t.percent {
		t.percent = percent
		t.set(percent)
	}
}

// share is how much of one processor was spent collecting between two
// measurements.
func share(from, to usage) float64 {
	elapsed := to.at.Sub(from.at).Seconds()
	if elapsed <= 0 {
		return 0
	}
	return (to.cpu - from.cpu) / elapsed
}

// percentFor is the percentage for a live heap of that many bytes.
func percentFor(busy bool, live, headroom uint64) int {
	if !busy && live < small {
		return smallRestPercent
	}
	if !busy {
		return restPercent
	}
	if live == 0 {
		return busyPercent
	}
	// In steps of ten, as each change stops the program for a moment.
	fits := int(headroom*10/live) * 10
	return max(leastBusyPercent, min(busyPercent, fits))
}

// read asks the Go runtime.
func read() usage {
	const total, idle, live = "/cpu/classes/gc/total:cpu-seconds", "/cpu/classes/gc/mark/idle:cpu-seconds", "/gc/heap/live:bytes"
	samples := []metrics.Sample{{Name: total}, {Name: idle}, {Name: live}}
	metrics.Read(samples)
	return usage{cpu: samples[0].Value.Float64() - samples[1].Value.Float64(), live: samples[2].Value.Uint64()}
}

// headroomOf is the headroom in a container with that limit, 0 for none, on a machine with
// that much memory, 0 if nobody knows.
func headroomOf(limit, machine uint64) uint64 {
	memory := machine
	if limit > 0 && (machine == 0 || limit < machine) {
		memory = limit
	}
	return max(leastHeadroom, min(mostHeadroom, memory/headroomParts))
}

// machineMemory is the memory of the machine in bytes, or 0 where Linux does not say it.
func machineMemory(readFile func(string) ([]byte, error)) uint64 {
	content, err := readFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(content), "MemTotal:")
	total, _, _ := strings.Cut(rest, " kB")
	kilobytes, err := strconv.ParseUint(strings.TrimSpace(total), 10, 53)
	if err != nil {
		return 0
	}
	return kilobytes << 10
}

// containerLimit is the memory limit, in bytes, of the control group that the
// process sees as its own, or 0 if there is none.
func containerLimit(readFile func(string) ([]byte, error)) uint64 {
	// Version 2 of control groups, then version 1.
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		content, err := readFile(path)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64)
		if err != nil || limit > 1<<60 { // "max", and what version 1 has for it
			return 0
		}
		return limit
	}
	return 0
}

// leastPercent and mostPercent bound GOGC where there is a headroom: the standard
// one, and what a live heap of one part in 16 of the headroom gets. percentStep keeps
// small differences from changing it, as each change stops the program for a moment.
const leastPercent, mostPercent, percentStep = 100, 1600, 50

// Headroom lets a process that lives for seconds, such as a plugin, allocate that
// many bytes between two collections, however small its live heap is. By the
// standard percentage a program with a few MB in use collects many times a second,
// and each collection costs the same. The process gets larger by that much at most.
//
// The environment variable GOGC takes precedence. When ctx has ended, the percentage
// stays as it is.
func Headroom(ctx context.Context, bytes uint64) {
	if os.Getenv("GOGC") != "" {
		return
	}
	s := &spacer{bytes: bytes, live: func() uint64 { return read().live }, set: func(percent int) { debug.SetGCPercent(percent) }}
	s.adjust()
	afterEach(ctx, s.adjust)
}

// spacer sets the percentage after each collection.
type spacer struct {
	bytes uint64
	live  func() uint64
	set   func(percent int)

	percent int
}

// sentinel is collected by the next collection. It has a pointer, as objects without
// share their memory with others.
type sentinel struct{ _ *byte }

// afterEach calls f after each collection until ctx ends, one call at a time.
func afterEach(ctx context.Context, f func()) {
	runtime.AddCleanup(&sentinel{}, func(f func()) {
		if ctx.Err() == nil {
			f()
			afterEach(ctx, f)
		}
	}, f)
}

func (s *spacer) adjust() {
	percent := mostPercent
	if live := s.live(); live > 0 {
		percent = int(min(mostPercent, max(leastPercent, s.bytes*100/live))) / percentStep * percentStep
	}
	if percent != s.percent {
		s.percent = percent
		s.set(percent)
	}
}
