package work

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// copyTimeout is how long to wait for a copy of a work that is up to date. A hub
// that was restored from a backup may never send one: its versions start over.
const copyTimeout = 5 * time.Second

// errOutdated says that the cache has yet to learn what this agent has written.
// The work is woken then.
var errOutdated = errors.New("the copy of the work is older than what was written")

// freshness knows which versions of works this agent has written, so that no
// work is judged by a copy from before: that would only end in a conflict.
type freshness struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	written map[string]writtenVersion
	waiting map[string]bool // works that were put off until their copy is up to date
}

type writtenVersion struct {
	version string
	at      time.Time
}

func newFreshness(clock clock.PassiveClock) *freshness {
	return &freshness{clock: clock, written: map[string]writtenVersion{}, waiting: map[string]bool{}}
}

// Wrote notes what became of a work by a write of ours.
func (f *freshness) Wrote(mw *workv1.ManifestWork) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written[mw.Name] = writtenVersion{mw.ResourceVersion, f.clock.Now()}
}

// outdated reports whether a copy of a work is older than what we wrote, and
// notes that the work waits then.
func (f *freshness) outdated(mw *workv1.ManifestWork) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.written[mw.Name]
	if !older(mw.ResourceVersion, last.version) || f.clock.Since(last.at) >= copyTimeout {
		delete(f.waiting, mw.Name)
		return false
	}
	f.waiting[mw.Name] = true
	return true
}

// waits reports whether a work waits for a copy that is up to date.
func (f *freshness) waits(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waiting[name]
}

func (f *freshness) Forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.written, name)
	delete(f.waiting, name)
}

// older compares resource versions, which are numbers that grow. What is none
// is not older.
func older(a, b string) bool {
	x, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return false
	}
	y, err := strconv.ParseUint(b, 10, 64)
	return err == nil && x < y
}

// Get reads a work from the cache, or returns errOutdated.
func (a *agent) Get(ctx context.Context, name string) (*workv1.ManifestWork, error) {
	// The second look is for a copy that came while the first was judged, too
	// early to wake a work that was not waiting yet.
	for range 2 {
		mw := &workv1.ManifestWork{}
		if err := a.hub.Get(ctx, a.workKey(name), mw); err != nil {
			return nil, err
		}
		if !a.freshness.outdated(mw) {
			return mw, nil
		}
	}
	return nil, errOutdated
}
