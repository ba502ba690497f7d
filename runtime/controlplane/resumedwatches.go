package controlplane

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// resumedWatches is a store behind a watch cache whose watches go on where they were before
// the server was started again. A watch cache knows nothing that was before its start, and
// sends a client back to read all objects again: a fleet's agents all of their works, at the
// time when the server has most to do. The store knows it for some minutes. Watches go to it
// as long as the cache reads, too.
type resumedWatches struct {
	storage.Interface
	stored storage.Interface
	ready  func() bool
	since  *atomic.Uint64
}

// Watch implements storage.Interface.
func (s resumedWatches) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	if s.before(ctx, o) {
		o.ProgressNotify = o.Predicate.AllowWatchBookmarks
		return s.stored.Watch(ctx, key, o)
	}
	return s.Interface.Watch(ctx, key, o)
}

// before reports whether a watch goes on from a version that the cache does not know, and
// that there has been.
func (s resumedWatches) before(ctx context.Context, o storage.ListOptions) bool {
	version, err := s.Versioner().ParseResourceVersion(o.ResourceVersion)
	if err != nil || version == 0 || o.SendInitialEvents != nil || s.ready() && version >= s.since.Load() {
		return false
	}
	current, err := s.stored.GetCurrentResourceVersion(ctx)
	return err == nil && version <= current
}
