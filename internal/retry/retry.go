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
	"sync"
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

// Once keeps what fails in the same way at each attempt from being logged at
// each attempt. The zero value is ready, and it is safe for concurrent use.
type Once struct{ each OnceEach[struct{}] }

// Changed reports whether text differs from that of the call before; so does the
// first after Clear.
func (o *Once) Changed(text string) bool { return o.each.Changed(struct{}{}, text) }

// Clear forgets the text, as after a success, and reports whether there was one.
func (o *Once) Clear() bool { return o.each.Clear(struct{}{}) }

// OnceEach is a Once for each of several keys.
type OnceEach[K comparable] struct {
	mu    sync.Mutex
	texts map[K]string
}

// Changed reports whether text differs from that of the call before for key; so
// does the first after Clear.
func (o *OnceEach[K]) Changed(key K, text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, ok := o.texts[key]; ok && before == text {
		return false
	}
	if o.texts == nil {
		o.texts = map[K]string{}
	}
	o.texts[key] = text
	return true
}

// Clear forgets the text of key, as after a success, and reports whether there
// was one.
func (o *OnceEach[K]) Clear(key K) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, known := o.texts[key]
	delete(o.texts, key)
	return known
}

// Quick is for single requests that mostly work a moment later, as after a
// conflict or while an API server restarts: 100 ms up to limit.
func Quick(limit time.Duration) wait.Backoff { return doubling(100*time.Millisecond, limit) }

// Start is for what the start of a program waits for, which may need somebody
// to help: half a second up to limit.
func Start(limit time.Duration) wait.Backoff { return doubling(500*time.Millisecond, limit) }

// Restart is for parts of a program that have failed as a whole: a second up to
// limit.
func Restart(limit time.Duration) wait.Backoff { return doubling(time.Second, limit) }

// Watch is for lists and watches: a quarter of a second up to 10 seconds. It
// has the most jitter, as all clients lose a server at the same time.
func Watch() wait.Backoff {
	b := doubling(250*time.Millisecond, 10*time.Second)
	b.Jitter = 1
	return b
}

// WatchSeconds is after how many seconds a server is to end a watch: half an hour, with up to
// as much again, which is what an API server chooses by itself. The five minutes that
// client-go asks for make a fleet at rest open half as many watches as it renews leases. A
// dead connection is noticed by its pings.
func WatchSeconds() *int64 {
	seconds := int64(wait.Jitter(30*time.Minute, 1).Seconds())
	return &seconds
}

// doubling waits twice as long each time, from first up to limit, and adds up
// to half of it as jitter.
func doubling(first, limit time.Duration) wait.Backoff {
	return wait.Backoff{Duration: first, Factor: 2, Jitter: 0.5, Steps: 30, Cap: limit}
}
