package gctuner

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
)

func TestTheHeadroomStaysTheSameWhileTheHeapGrows(t *testing.T) {
	var set []int
	live := uint64(0)
	s := spacer{bytes: 64 * mib, live: func() uint64 { return live }, set: func(percent int) { set = append(set, percent) }}
	for _, live = range []uint64{0, 2 * mib, 8 * mib, 8*mib + 1000, 20 * mib, 64 * mib, 900 * mib, 8 * mib} {
		s.adjust()
	}
	if want := []int{1600, 800, 750, 300, 100, 800}; !slices.Equal(set, want) {
		t.Errorf("set %v, want %v", set, want)
	}
}

// waste is where the compiler can't see that nothing is used.
type waste struct{ text []byte }

// A process with a headroom collects rarely, and goes on to be asked after each
// collection.
func TestAProcessWithHeadroomCollectsRarely(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "")
	collections := func() uint32 {
		var kept waste
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		n := m.NumGC
		for range 400 << 10 { // 400 MB
			kept.text = make([]byte, 1<<10)
		}
		runtime.KeepAlive(kept)
		runtime.ReadMemStats(&m)
		return m.NumGC - n
	}
	standard := collections()
	Headroom(t.Context(), 64*mib)
	if with := collections(); with*3 > standard {
		t.Errorf("%d collections, and %d with the headroom", standard, with)
	}
}

func TestTheEnvironmentTakesPrecedenceOverTheHeadroom(t *testing.T) {
	before := debug.SetGCPercent(77)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "77")
	Headroom(t.Context(), 64*mib)
	runtime.GC()
	if percent := debug.SetGCPercent(77); percent != 77 {
		t.Errorf("the percentage is %d", percent)
	}
}
