// Package watches watches the kinds of the objects that works hold, and queues the
// works whose objects change. Of the objects it keeps the identity only.
package watches

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Watches watches the kinds that works hold and queues the works whose objects
// change. Of the objects it keeps the metadata only. A kind that may not be
// watched is left to the periodic pass over all works.
type Watches struct {
	client metadata.Interface
	clock  clock.Clock
	log    *slog.Logger
	queue  func(work string)

	ctx  context.Context // of the watches
	stop context.CancelFunc

	mu        sync.Mutex
	informers map[schema.GroupVersionResource]*watch
	works     map[string]map[manifest.Key]schema.GroupVersionResource
	byObject  map[manifest.Key]map[string]bool
	running   sync.WaitGroup
}

type watch struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	works    int // that hold objects of the kind
	// failed is when watching last failed, in nanoseconds since 1970.
	failed atomic.Int64
}

// unreliable is how long a watch that failed is not relied on. It is longer than
// the pauses between the attempts of one that goes on failing.
const unreliable = 2 * time.Minute

// New makes watches. queue is called with the name of a work whose objects have
// changed.
func New(client metadata.Interface, clock clock.Clock, log *slog.Logger, queue func(string)) *Watches {
	ctx, stop := context.WithCancel(context.Background())
	return &Watches{
		client: client, clock: clock, log: log, queue: queue, ctx: ctx, stop: stop,
		informers: map[schema.GroupVersionResource]*watch{},
		works:     map[string]map[manifest.Key]schema.GroupVersionResource{},
		byObject:  map[manifest.Key]map[string]bool{},
	}
}

// Stop ends all watches. Set must not be called any more.
func (w *Watches) Stop() {
	w.stop()
	w.running.Wait()
}

// Concerning are the objects whose changes concern a work: those of its manifests,
// those that it once made and that are being deleted, and those whose lack keeps a
// manifest from being applied: a namespace, or the definition of a kind.
func Concerning(
	manifests []*manifest.Manifest, last map[manifest.Key]decide.Result, made []workv1.AppliedManifestResourceMeta,
) map[manifest.Key]schema.GroupVersionResource {
	out := map[manifest.Key]schema.GroupVersionResource{}
	for _, r := range made {
		gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
		out[manifest.KeyOf(gvr, r.Namespace, r.Name)] = gvr
	}
	for _, m := range manifests {
		if m.UnknownKind { // until the cluster serves it
			gvr := apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
			out[manifest.KeyOf(gvr, "", "")] = gvr
		}
		if m.Err != nil {
			continue
		}
		r, ok := last[m.Key()]
		if ok && r.Hidden {
			continue // the work must not notice its changes
		}
		out[m.Key()] = m.GVR
		if ok && m.Meta.Namespace != "" && apierrors.IsNotFound(r.Err) {
			gvr := corev1.SchemeGroupVersion.WithResource("namespaces")
			out[manifest.KeyOf(gvr, "", m.Meta.Namespace)] = gvr
		}
	}
	return out
}

// Set sets which objects a work holds. Kinds that no work holds are no longer
// watched. It returns the resource versions of the objects whose kind is watched
// reliably, as Version does.
func (w *Watches) Set(
	work string, objects map[manifest.Key]schema.GroupVersionResource,
) map[manifest.Key]string {
	w.hold(work, objects)
	versions := make(map[manifest.Key]string, len(objects))
	for key, gvr := range objects {
		if version, known := w.Version(gvr, key); known {
			versions[key] = version
		}
	}
	return versions
}

// hold sets which objects a work holds.
func (w *Watches) hold(work string, objects map[manifest.Key]schema.GroupVersionResource) {
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
func (w *Watches) count(objects map[manifest.Key]schema.GroupVersionResource, by int) {
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

// Identities is an informer that keeps, of thousands of objects, only what shows
// whether one has changed.
func Identities(client metadata.Interface, gvr schema.GroupVersionResource) cache.SharedIndexInformer {
	informer := metadatainformer.NewFilteredMetadataInformer(
		client, gvr, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
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
func (w *Watches) watch(gvr schema.GroupVersionResource) *watch {
	informer := Identities(w.client, gvr)
	x := &watch{informer: informer}
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		x.failed.Store(w.clock.Now().UnixNano())
		w.log.Debug("watching applied objects", "resource", gvr.String(), "err", err)
	})
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.changed(gvr, o) },
		UpdateFunc: func(_, o any) { w.changed(gvr, o) },
		DeleteFunc: func(o any) { w.changed(gvr, o) },
	})
	var ctx context.Context
	ctx, x.stop = context.WithCancel(w.ctx)
	w.running.Go(func() { informer.RunWithContext(ctx) })
	w.running.Go(func() {
		select {
		case <-informer.HasSyncedChecker().Done():
			w.queueMissing(gvr, informer.GetStore())
		case <-ctx.Done():
		}
	})
	return x
}

// queueMissing queues the works that hold objects of a kind that the first list of
// the kind lacks. Such an object may have been read, and deleted before the list:
// there is no event about it.
func (w *Watches) queueMissing(gvr schema.GroupVersionResource, listed cache.Store) {
	w.mu.Lock()
	var works []string
	for work, objects := range w.works {
		for key, of := range objects {
			if of != gvr || key.Name == "" {
				continue
			}
			if _, exists, err := listed.GetByKey(storeKey(key)); err == nil && !exists {
				works = append(works, work)
				break
			}
		}
	}
	w.mu.Unlock()
	for _, work := range works {
		w.queue(work)
	}
}

// storeKey is the key of an object in an informer's store.
func storeKey(key manifest.Key) string {
	return cache.NewObjectName(key.Namespace, key.Name).String()
}

func (w *Watches) changed(gvr schema.GroupVersionResource, o any) {
	m, ok := ObjectOf[*metav1.PartialObjectMetadata](o)
	if !ok {
		return
	}
	key := manifest.KeyOf(gvr, m.Namespace, m.Name)
	w.mu.Lock()
	var works []string
	for work := range w.byObject[key] {
		works = append(works, work)
	}
	for work := range w.byObject[manifest.Key{GroupResource: key.GroupResource}] {
		works = append(works, work) // which waits for any of the kind
	}
	w.mu.Unlock()
	for _, work := range works {
		w.queue(work)
	}
}

// Version is the resource version of an object as far as it is known here.
// known is false when the kind is not watched, not yet, or not reliably.
func (w *Watches) Version(gvr schema.GroupVersionResource, key manifest.Key) (version string, known bool) {
	w.mu.Lock()
	x := w.informers[gvr]
	w.mu.Unlock()
	if x == nil || !x.informer.HasSynced() || w.clock.Since(time.Unix(0, x.failed.Load())) < unreliable {
		return "", false
	}
	o, exists, err := x.informer.GetStore().GetByKey(storeKey(key))
	if err != nil || !exists {
		return "", err == nil
	}
	return o.(*metav1.PartialObjectMetadata).ResourceVersion, true
}

// ObjectOf is the object of an event, also of one that says that a deletion was
// missed.
func ObjectOf[T any](o any) (T, bool) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	t, ok := o.(T)
	return t, ok
}
