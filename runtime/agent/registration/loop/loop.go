// Package loop is the engine of registration: it looks at one thing whenever
// something about it may have changed, and when it is time to. A pass does not
// learn what changed. It looks at all that it depends on, as a controller does.
//
// controller-runtime's controllers, which look after works, add-ons and user access,
// are not used for it. They have a queue of many keys, and here there is one. Their
// caches follow the real clock, and the tests of leases and outages step a fake one.
// And their caches can't be made to try again at once, don't say that they work again,
// and belong to one client, while registration goes over to another hub or identity
// within its life.
//
// The package imports internal/retry and nothing else of muster.
package loop

import (
	"context"
	"math"
	"time"

	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
)

// Never is after how long a pass is due that only a signal brings about.
const Never = time.Duration(math.MaxInt64)

// Signal has an element when there is news. Several pieces of news make one
// element. Make it with NewSignal. It is safe for concurrent use.
type Signal chan struct{}

// NewSignal returns a signal without news.
func NewSignal() Signal { return make(Signal, 1) }

// Set says that there is news. It does not block.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default: // there is one to receive already
	}
}

// Clear drops news that nothing has received.
func (s Signal) Clear() {
	select {
	case <-s:
	default:
	}
}

// Run calls pass after the time first, or at once when it is 0, or earlier when news has an element, and
// again after the time that pass returned, or earlier in the same way. It
// returns when ctx ends; pass may end it.
func Run(ctx context.Context, clk clock.Clock, news Signal, first time.Duration, pass func(context.Context) time.Duration) {
	for after := first; ; after = pass(ctx) {
		if after == Never {
			select {
			case <-ctx.Done():
			case <-news:
			}
		} else {
			retry.Sleep(ctx, clk, after, news)
		}
		if ctx.Err() != nil {
			return
		}
	}
}
