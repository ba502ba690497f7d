package budget

import (
	"sync"
	"time"
)

// Recent remembers what was admitted a moment ago. Limits that count what a cache shows
// need it, or many requests at a time would pass them together; and so do limits for a
// period. It is safe for concurrent use.
//
// It is in this process. Another replica of the hub learns what this one has admitted
// when its cache shows it, some tenths of a second later, so that as many requests as
// come within that time may pass a limit of what is there. A limit for a period holds in
// each replica: with several ones it is so many times as large.
type Recent[T any] struct {
	// Within is how long something is remembered.
	Within time.Duration

	mu       sync.Mutex
	admitted []admitted[T] // the oldest first
}

type admitted[T any] struct {
	at   time.Time
	item T
}

// Admit remembers item, unless decide refuses it, or for a dry run. decide gets what was
// admitted before, the oldest first; no other item is admitted meanwhile.
func (r *Recent[T]) Admit(now time.Time, item T, dryRun bool, decide func(before []T) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.admitted) > 0 && now.Sub(r.admitted[0].at) >= r.Within {
		r.admitted = r.admitted[1:]
	}
	before := make([]T, len(r.admitted))
	for i, a := range r.admitted {
		before[i] = a.item
	}
	if err := decide(before); err != nil || dryRun {
		return err
	}
	r.admitted = append(r.admitted, admitted[T]{now, item})
	return nil
}
