package work

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// objectKey is where an object is in the managed cluster.
type objectKey struct {
	schema.GroupResource
	namespace, name string
}

// watches watches the kinds that works hold and wakes the works whose objects
// change. Of the objects it keeps the metadata only. A kind that may not be
// watched is left to the periodic look at all works.
type watches struct {
	client metadata.Interface
	clock  clock.Clock
	wake   func(work string)

	mu        sync.Mutex
	ctx       context.Context
	informers map[schema.GroupVersionResource]*watch
	works     map[string]map[objectKey]schema.GroupVersionResource
	byObject  map[objectKey]map[string]bool
	running   sync.WaitGroup
}

type watch struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	works    int // that hold objects of the kind
	// failed is when watching last failed, in nanoseconds since 1970.
	failed atomic.Int64
}

// distrust is how long a watch that failed is not relied on. It is longer than
// the pauses between the attempts of one that goes on failing.
const distrust = 2 * time.Minute

func newWatches(client metadata.Interface, clock clock.Clock, wake func(string)) *watches {
	return &watches{
		client: client, clock: clock, wake: wake,
		informers: map[schema.GroupVersionResource]*watch{},
		works:     map[string]map[objectKey]schema.GroupVersionResource{},
		byObject:  map[objectKey]map[string]bool{},
	}
}

// start lets watches begin; they end with ctx.
func (w *watches) start(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx = ctx
}

func (w *watches) stop() { w.running.Wait() }

// set tells which objects a work holds.
func (w *watches) set(work string, objects map[objectKey]schema.GroupVersionResource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.works[work]
	w.count(before, -1)
	for key := range before {
		delete(w.byObject[key], work)
		if len(w.byObject[key]) == 0 {
			delete(w.byObject, key)
		}
	}
	if len(objects) == 0 {
		delete(w.works, work)
	} else {
		w.works[work] = objects
	}
	for key := range objects {
		if w.byObject[key] == nil {
			w.byObject[key] = map[string]bool{}
		}
		w.byObject[key][work] = true
	}
	w.count(objects, 1)
	for gvr, x := range w.informers {
		if x.works <= 0 {
			x.stop()
			delete(w.informers, gvr)
		}
	}
}

// count is called with w.mu held.
func (w *watches) count(objects map[objectKey]schema.GroupVersionResource, by int) {
	kinds := map[schema.GroupVersionResource]bool{}
	for _, gvr := range objects {
		kinds[gvr] = true
	}
	for gvr := range kinds {
		if w.informers[gvr] == nil && by > 0 {
			w.informers[gvr] = w.watch(gvr)
		}
		if x := w.informers[gvr]; x != nil {
			x.works += by
		}
	}
}

// identities is an informer that keeps, of thousands of objects, only what tells
// whether one has changed.
func identities(client metadata.Interface, gvr schema.GroupVersionResource) cache.SharedIndexInformer {
	informer := metadatainformer.NewFilteredMetadataInformer(client, gvr, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	_ = informer.SetTransform(func(o any) (any, error) { // only fails once the informer runs
		if m, ok := o.(*metav1.PartialObjectMetadata); ok {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
			}}, nil
		}
		return o, nil
	})
	return informer
}

// watch is called with w.mu held.
func (w *watches) watch(gvr schema.GroupVersionResource) *watch {
	informer := identities(w.client, gvr)
	x := &watch{informer: informer}
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		x.failed.Store(w.clock.Now().UnixNano())
		slog.Debug("watching applied objects", "resource", gvr.String(), "err", err)
	})
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.changed(gvr, o) },
		UpdateFunc: func(_, o any) { w.changed(gvr, o) },
		DeleteFunc: func(o any) { w.changed(gvr, o) },
	})
	var ctx context.Context
	ctx, x.stop = context.WithCancel(w.ctx)
	w.running.Go(func() { informer.RunWithContext(ctx) })
	return x
}

func (w *watches) changed(gvr schema.GroupVersionResource, o any) {
	m, ok := object[*metav1.PartialObjectMetadata](o)
	if !ok {
		return
	}
	key := objectKey{gvr.GroupResource(), m.Namespace, m.Name}
	w.mu.Lock()
	var works []string
	for work := range w.byObject[key] {
		works = append(works, work)
	}
	for work := range w.byObject[objectKey{GroupResource: key.GroupResource}] {
		works = append(works, work) // which waits for any of the kind
	}
	w.mu.Unlock()
	for _, work := range works {
		w.wake(work)
	}
}

// version is the resource version of an object as far as it is known here.
// known is false when the kind is not watched, not yet, or not reliably.
func (w *watches) version(gvr schema.GroupVersionResource, key objectKey) (version string, known bool) {
	w.mu.Lock()
	x := w.informers[gvr]
	w.mu.Unlock()
	if x == nil || !x.informer.HasSynced() || w.clock.Since(time.Unix(0, x.failed.Load())) < distrust {
		return "", false
	}
	name := key.name
	if key.namespace != "" {
		name = key.namespace + "/" + name
	}
	o, exists, err := x.informer.GetStore().GetByKey(name)
	if err != nil || !exists {
		return "", err == nil
	}
	return o.(*metav1.PartialObjectMetadata).ResourceVersion, true
}
