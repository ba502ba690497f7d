package gctuner

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

const mib = 1 << 20

func TestPercentFor(t *testing.T) {
	for _, tc := range []struct {
		what     string
		busy     bool
		live     uint64
		headroom uint64
		want     int
	}{
		{"at rest, small", false, 30 * mib, leastHeadroom, 25},
		{"at rest, large", false, 2000 * mib, mostHeadroom, 50},
		{"before the first collection", true, 0, leastHeadroom, 300},
		{"under load, small", true, 40 * mib, leastHeadroom, 300},
		{"under load, the headroom is what counts", true, 64 * mib, leastHeadroom, 200},
		{"under load, more than the headroom", true, 160 * mib, leastHeadroom, 80},
		{"under load, large", true, 3000 * mib, mostHeadroom, 75},
		{"under load, with much memory", true, 512 * mib, mostHeadroom, 200},
		{"under load, small, with much memory", true, 64 * mib, mostHeadroom, 300},
	} {
		if got := percentFor(tc.busy, tc.live, tc.headroom); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.what, got, tc.want)
		}
	}
}

// The percentage is limited during the start, large under load, small once collecting has cost
// nothing for a while, and large again as soon as it costs something.
func TestThePercentageFollowsTheLoad(t *testing.T) {
	var set []int
	now := usage{live: 64 * mib}
	freed := 0
	tuner := tuner{
		headroom: leastHeadroom,
		read:     func() usage { return now }, set: func(percent int) { set = append(set, percent) }, free: func() { freed++ },
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	at := time.Now()
	clk := clocktesting.NewFakeClock(at)
	tuner.run(ctx, clk, nil, nil) // returns after one measurement
	now.live = 50 * mib
	tuner.collected(at)
	if want := []int{100}; !slices.Equal(set, want) {
		t.Fatalf("during the start: set %v, want %v", set, want)
	}
	for i := range window - 1 {
		if i == startPeriods {
			now.live = 128 * mib
		}
		at = at.Add(period)
		tuner.observe(at)
	}
	if want := []int{100, 250, 100}; !slices.Equal(set, want) {
		t.Fatalf("before a whole window: set %v, want %v", set, want)
	}
	at = at.Add(period)
	tuner.observe(at)
	if want := []int{100, 250, 100, 50}; !slices.Equal(set, want) {
		t.Fatalf("after a window at rest: set %v, want %v", set, want)
	}
	now.cpu += 0.02 * period.Seconds()
	at = at.Add(period)
	tuner.observe(at)
	if want := []int{100, 250, 100, 50}; !slices.Equal(set, want) {
		t.Fatalf("with a little load: set %v, want %v", set, want)
	}
	now.cpu += 0.5 * period.Seconds()
	at = at.Add(period)
	tuner.observe(at)
	if want := []int{100, 250, 100, 50, 100}; !slices.Equal(set, want) {
		t.Fatalf("under load: set %v, want %v", set, want)
	}
	now.cpu, now.live = now.cpu+10, 160*mib
	at = at.Add(period)
	tuner.observe(at)
	if want := []int{100, 250, 100, 50, 100, 80}; !slices.Equal(set, want) {
		t.Fatalf("with a larger heap: set %v, want %v", set, want)
	}
	if freed != 1 {
		t.Errorf("memory was given back %d times, want once, after the load", freed)
	}
}

// Collections of an idle process are far apart. Two that follow each other within a
// second are load, long before an average shows it, and a single one is not.
func TestALoadOfSecondsCounts(t *testing.T) {
	percent := 0
	now := usage{live: 40 * mib}
	tuner := tuner{
		headroom: leastHeadroom,
		read:     func() usage { return now }, set: func(p int) { percent = p }, free: func() { now.cpu += 10 },
	}
	at := time.Now()
	tuner.busy, tuner.started = true, startPeriods
	for range window + 1 {
		tuner.observe(at)
		at = at.Add(period)
	}
	collect := func(after time.Duration) {
		t.Helper()
		now.cpu += 0.06
		at = at.Add(after)
		tuner.collected(at)
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{
		{time.Second, 25}, // what gave the memory back was not a load
		{20 * time.Second, 25},
		{2 * time.Second, 25},
		{time.Second, 300},
		{time.Second, 300},
		{20 * time.Second, 300},
	} {
		if collect(step.after); percent != step.want {
			t.Fatalf("a collection %s after the one before: %d %%, want %d", step.after, percent, step.want)
		}
	}
	for range window + 1 {
		at = at.Add(period)
		tuner.observe(at)
	}
	if percent != 25 {
		t.Errorf("after a window at rest: %d %%, want 25", percent)
	}
}

// The tuner learns of collections from the Go runtime.
func TestTheTunerLearnsOfCollections(t *testing.T) {
	learned := make(chan struct{}, 1)
	afterEach(t.Context(), func() {
		select {
		case learned <- struct{}{}:
		default:
		}
	})
	for range 3 {
		for seen := false; !seen; { // a finalizer may run only after the next collection
			runtime.GC()
			select {
			case <-learned:
				seen = true
			default:
				runtime.Gosched()
			}
		}
	}
}

// What the user sets stays. GOGC=off, for one, is a percentage too.
func TestTheEnvironmentTakesPrecedence(t *testing.T) {
	t.Setenv("GOGC", "off")
	t.Setenv("GOMEMLIMIT", "off")
	Run(context.Background(), nil, nil) // would fail without a clock if it set anything
}

func TestReadKnowsItsMetrics(t *testing.T) {
	if u := read(); u.cpu < 0 {
		t.Errorf("the collector has used %f s", u.cpu)
	}
}

// A start may use more memory than what comes later.
func TestTheHeadroomIsForTheStart(t *testing.T) {
	var percent int
	tuner := tuner{headroom: mostHeadroom, busy: true, started: startPeriods, set: func(p int) { percent = p }}
	for _, tc := range []struct {
		rested bool
		live   uint64
		want   int
	}{
		{false, 512 * mib, 200}, {true, 512 * mib, 100}, {true, 64 * mib, 200},
		{true, 1000 * mib, 100}, {true, 2000 * mib, 75},
	} {
		tuner.afterStart = tc.rested
		if tuner.apply(tc.live); percent != tc.want {
			t.Errorf("rested %t, %d bytes: got %d, want %d", tc.rested, tc.live, percent, tc.want)
		}
	}
	tuner.started, tuner.afterStart = 0, false
	if tuner.apply(512 * mib); percent != 200 {
		t.Errorf("a large heap gets %d at the beginning of a start", percent)
	}
	tuner.read = func() usage { return usage{} }
	ctx, cancel := context.WithCancel(t.Context())
	started, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tuner.run(ctx, clocktesting.NewFakeClock(time.Now()), nil, started)
	}()
	started <- struct{}{}
	cancel()
	<-ended
	if !tuner.afterStart {
		t.Error("the end of a start is not seen")
	}
}

// A hub uses more memory under load where there is more.
func TestHeadroomOf(t *testing.T) {
	for _, tc := range []struct{ limit, machine, want uint64 }{
		{0, 0, 128 * mib},
		{0, 1024 * mib, 128 * mib},
		{0, 8192 * mib, 512 * mib},
		{0, 1 << 40, 1024 * mib},
		{4096 * mib, 65536 * mib, 256 * mib},
		{65536 * mib, 8192 * mib, 512 * mib},
		{4096 * mib, 0, 256 * mib},
	} {
		if got := headroomOf(tc.limit, tc.machine); got != tc.want {
			t.Errorf("limit %d of %d: got %d, want %d", tc.limit, tc.machine, got, tc.want)
		}
	}
}

func TestMachineMemory(t *testing.T) {
	for content, want := range map[string]uint64{
		"MemTotal:       24689392 kB\nMemFree:         1 kB\n": 24689392 << 10,
		"MemFree: 1 kB\n": 0, "": 0, "MemTotal: x kB\n": 0, "MemTotal: 99999999999999999999 kB\n": 0,
	} {
		got := machineMemory(func(string) ([]byte, error) { return []byte(content), nil })
		if got != want {
			t.Errorf("%q: got %d, want %d", content, got, want)
		}
	}
	if got := machineMemory(func(string) ([]byte, error) { return nil, errors.New("not there") }); got != 0 {
		t.Errorf("got %d without the file", got)
	}
}

func TestContainerLimit(t *testing.T) {
	const v2, v1 = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
	for _, tc := range []struct {
		files map[string]string
		want  uint64
	}{
		{nil, 0},
		{map[string]string{v2: "536870912\n"}, 512 * mib},
		{map[string]string{v2: "max\n"}, 0},
		{map[string]string{v1: "536870912\n"}, 512 * mib},
		{map[string]string{v1: "9223372036854771712\n"}, 0},
	} {
		got := containerLimit(func(path string) ([]byte, error) {
			if content, ok := tc.files[path]; ok {
				return []byte(content), nil
			}
			return nil, errors.New("not there")
		})
		if got != tc.want {
			t.Errorf("%v: got %d, want %d", tc.files, got, tc.want)
		}
	}
}
