package engine

import (
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CopyTimeout is how long to wait for a copy that is up to date. A server that was
// restored from a backup may never send one: its versions start over.
const CopyTimeout = 5 * time.Second

// Written knows what a controller has written, so that it decides nothing by a copy
// from before: it would do everything twice. It is safe for concurrent use. Make it
// with NewWritten.
type Written struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	entries map[client.ObjectKey]written
}

type written struct {
	version string
	removed types.UID // of an object that was deleted, in place of the version
	at      time.Time
	awaited bool // a copy was found to be behind
}

// NewWritten knows of no writes.
func NewWritten(clk clock.PassiveClock) *Written {
	return &Written{clock: clk, entries: map[client.ObjectKey]written{}}
}

// Wrote notes an object as it is after a write.
func (w *Written) Wrote(o client.Object) {
	w.note(o, written{version: o.GetResourceVersion()})
}

// Removed notes that an object was deleted.
func (w *Written) Removed(o client.Object) {
	w.note(o, written{removed: o.GetUID()})
}

func (w *Written) note(o client.Object, e written) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.at = w.clock.Now()
	w.entries[client.ObjectKeyFromObject(o)] = e
}

// IsBehind reports whether a copy is older than what was written. A copy without a
// version is that there is no such object. The caller looks again when the copy
// changes, and after CopyTimeout.
func (w *Written) IsBehind(key client.ObjectKey, o client.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.entries[key]
	if !ok {
		return false
	}
	version := o.GetResourceVersion()
	behind := version == "" || older(version, e.version)
	if e.removed != "" {
		if version == "" {
			return false // or a copy that does not show it yet: the entry stays
		}
		behind = o.GetUID() == e.removed
	}
	if !behind || w.clock.Since(e.at) >= CopyTimeout {
		delete(w.entries, key)
		return false
	}
	e.awaited = true
	w.entries[key] = e
	return true
}

// IsAwaited reports whether a copy that is up to date is waited for.
func (w *Written) IsAwaited(key client.ObjectKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries[key].awaited
}

// Forget drops what is known of an object.
func (w *Written) Forget(key client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.entries, key)
}

// older compares resource versions, which are numbers that grow. What is none is not
// older.
func older(a, b string) bool {
	x, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return false
	}
	y, err := strconv.ParseUint(b, 10, 64)
	return err == nil && x < y
}
