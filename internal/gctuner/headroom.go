package gctuner

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
)

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
