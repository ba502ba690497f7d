// Package retry tries again what has failed: it waits between the attempts,
// longer each time, and keeps what stays the same out of the log.
//
// Until is for what is tried until it works. Backoff is for loops that do more
// between two attempts, or that also wait for other things. All waits follow
// the clock that they are given, so that tests step a fake one, and end with
// their context. The package imports nothing of muster.
//
// Loops that reconcile keys have a workqueue, which does the same for each key:
// use that one there.
package retry

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

// Until calls attempt until it returns nil or ctx ends. In between it waits as
// policy says. It returns nil, or ctx's error.
func Until(ctx context.Context, clk clock.Clock, policy wait.Backoff, attempt func(context.Context) error) error {
	b := New(clk, policy)
	for ctx.Err() == nil {
		if err := attempt(ctx); err == nil {
			return nil
		}
		b.Wait(ctx, nil)
	}
	return ctx.Err()
}

// Backoff is how long to wait after each of several failures in a row. Make it
// with New. It is not safe for concurrent use.
type Backoff struct {
	clock  clock.Clock
	policy wait.Backoff
	next   wait.DelayFunc
}

// New returns a Backoff that waits as policy says.
func New(clk clock.Clock, policy wait.Backoff) *Backoff {
	return &Backoff{clock: clk, policy: policy, next: policy.DelayFunc()}
}

// Next returns how long to wait after one more failure.
func (b *Backoff) Next() time.Duration { return b.next() }

// Reset makes the next wait the shortest again, as after a success.
func (b *Backoff) Reset() { b.next = b.policy.DelayFunc() }

// Wait waits after one more failure, until the time is over, ctx ends, or wake,
// which may be nil, has an element or is closed. The last of them resets b.
func (b *Backoff) Wait(ctx context.Context, wake <-chan struct{}) {
	if Sleep(ctx, b.clock, b.Next(), wake) {
		b.Reset()
	}
}

// Sleep waits for the time d, or until ctx ends, or until wake, which may be
// nil, has an element or is closed. It reports whether it was wake.
func Sleep(ctx context.Context, clk clock.Clock, d time.Duration, wake <-chan struct{}) (woken bool) {
	if d <= 0 {
		return false
	}
	timer := clk.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return false
	case <-wake:
		return true
	}
}
