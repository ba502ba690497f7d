package controlplane

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// openCached opens a store behind a watch cache, as Kubernetes does, whose watches go on after
// a restart. The cache reads what around makes of the store.
func openCached(
	raw *rawStores, config *storagebackend.ConfigForResource, around func(storage.Interface) storage.Interface,
	prefix string, key func(runtime.Object) (string, error), newObject, newList func() runtime.Object,
	attributes storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
) (resumedWatches, factory.DestroyFunc, error) {
	stored, destroy, err := raw.open(config, newObject, newList, prefix)
	if err != nil {
		return resumedWatches{}, destroy, err
	}
	since := &atomic.Uint64{}
	cached, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: firstReads{around(stored), since}, Versioner: storage.APIObjectVersioner{},
		GroupResource: config.GroupResource, EventsHistoryWindow: config.EventsHistoryWindow, ResourcePrefix: prefix,
		KeyFunc: key, NewFunc: newObject, NewListFunc: newList, GetAttrsFunc: attributes,
		IndexerFuncs: trigger, Indexers: indexers, Codec: config.Codec,
	})
	if err != nil {
		destroy()
		return resumedWatches{}, func() {}, err
	}
	served := cacher.NewCacheDelegator(cached, stored)
	var once sync.Once
	return resumedWatches{served, stored, cached, since}, func() {
		once.Do(func() {
			served.Stop()
			cached.Stop()
			destroy()
		})
	}, nil
}

// firstReads is the store that a watch cache reads. It notes the version that the cache has
// read first, and follows from then on.
type firstReads struct {
	storage.Interface
	since *atomic.Uint64
}

// GetList implements storage.Interface.
func (s firstReads) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	err := s.Interface.GetList(ctx, key, o, list)
	if err != nil {
		return err
	}
	if version, err := s.Versioner().ObjectResourceVersion(list); err == nil {
		s.since.Store(version)
	}
	return nil
}

// Watch implements storage.Interface.
func (s firstReads) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	w, err := s.Interface.Watch(ctx, key, o)
	if err != nil || o.SendInitialEvents == nil || !*o.SendInitialEvents {
		return w, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		if e.Type != watch.Bookmark {
			return e, true
		}
		m, err := meta.Accessor(e.Object)
		if err != nil || m.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
			return e, true
		}
		if version, err := s.Versioner().ParseResourceVersion(m.GetResourceVersion()); err == nil {
			s.since.Store(version)
		}
		return e, true
	}), nil
}

// resumedWatches is a store behind a watch cache whose watches go on where they were before
// the server was started again. A watch cache knows nothing that was before its start, and
// sends a client back to read all objects again: a fleet's agents all of their works, at the
// time when the server has most to do. The store knows it for some minutes. Watches go to it
// for a while, as long as the cache reads, too.
type resumedWatches struct {
	storage.Interface
	stored storage.Interface
	cached *cacher.Cacher
	since  *atomic.Uint64 // firstReads
}

// Watch implements storage.Interface.
func (s resumedWatches) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	if s.before(ctx, o) {
		o.ProgressNotify = o.Predicate.AllowWatchBookmarks
		ctx, cancel := context.WithTimeout(ctx, wait.Jitter(storedFor, 1))
		w, err := s.stored.Watch(ctx, key, o)
		if err != nil {
			cancel()
			return nil, err
		}
		return &storedWatch{w, cancel}, nil
	}
	return s.Interface.Watch(ctx, key, o)
}

// storedFor is how long a watch goes to the store at least, and at most twice as long. Its
// client has learnt by then where the store is, after one or two of etcd's
// WatchProgressNotifyIntervals, and goes on in the cache. In the store each watch has four
// goroutines more, and decodes for itself.
var storedFor = 3 * time.Minute

// storedWatch frees its context when it is stopped.
type storedWatch struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (w *storedWatch) Stop() {
	w.Interface.Stop()
	w.cancel()
}

// before reports whether a watch goes on from a version that the cache does not know, and
// that there has been.
func (s resumedWatches) before(ctx context.Context, o storage.ListOptions) bool {
	version, err := s.Versioner().ParseResourceVersion(o.ResourceVersion)
	if err != nil || version == 0 || o.SendInitialEvents != nil || s.cached.Ready() && version >= s.since.Load() {
		return false
	}
	current, err := s.stored.GetCurrentResourceVersion(ctx)
	return err == nil && version <= current
}
