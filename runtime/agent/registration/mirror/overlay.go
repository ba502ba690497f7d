package mirror

import (
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Overlay holds what an agent has written, until a mirror shows it: without it a
// pass that comes too early would do everything twice. Make it with NewOverlay. It
// is safe for concurrent use.
type Overlay[T client.Object] struct {
	mu      sync.Mutex
	entries map[client.ObjectKey]entry[T]
}

type entry[T client.Object] struct {
	// before are the versions that are older than what was written; "" is that
	// there is no such object.
	before  []string
	written T
	// removed is the UID of an object that was deleted, in place of the others.
	removed types.UID
}

// NewOverlay makes an overlay that holds nothing.
func NewOverlay[T client.Object]() *Overlay[T] {
	return &Overlay[T]{entries: map[client.ObjectKey]entry[T]{}}
}

// Latest is the newer of what a mirror shows, which may be nil, and what was
// written.
func (o *Overlay[T]) Latest(key client.ObjectKey, seen T) T {
	o.mu.Lock()
	defer o.mu.Unlock()
	e, ok := o.entries[key]
	if !ok {
		return seen
	}
	if e.removed != "" && (version(seen) == "" || seen.GetUID() == e.removed) {
		var none T
		return none // a late mirror may not have shown it yet, and show it now
	}
	if e.removed == "" && slices.Contains(e.before, version(seen)) {
		return e.written
	}
	delete(o.entries, key)
	return seen
}

// Wrote notes a write. seen is the object before it, which is nil for a creation.
func (o *Overlay[T]) Wrote(seen, written T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := client.ObjectKeyFromObject(written)
	e, ok := o.entries[key]
	if ok {
		e.before = append(e.before, version(e.written))
	}
	e.before, e.written, e.removed = append(e.before, version(seen)), written, ""
	o.entries[key] = e
}

// Removed notes that an object was deleted.
func (o *Overlay[T]) Removed(object T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.entries[client.ObjectKeyFromObject(object)] = entry[T]{removed: object.GetUID()}
}

// Drop forgets a write, as after a conflict.
func (o *Overlay[T]) Drop(key client.ObjectKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.entries, key)
}

// Forget forgets the writes of objects that are gone.
func (o *Overlay[T]) Forget(gone func(client.ObjectKey) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.entries {
		if gone(key) {
			delete(o.entries, key)
		}
	}
}

func version[T client.Object](object T) string {
	if v := reflect.ValueOf(object); !v.IsValid() || v.IsNil() {
		return ""
	}
	return object.GetResourceVersion()
}
