package engine

import (
	"context"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WatchOptions say what a Watch watches.
type WatchOptions[T client.Object] struct {
	Client client.WithWatch
	// Object and List are empty ones of the kind.
	Object T
	List   client.ObjectList
	// Select narrows the list, by labels, fields or namespace.
	Select []client.ListOption
	// Changed is called with each object that is new, changed or gone. before is nil
	// unless it has changed. It must not block.
	Changed func(before, now T)
	// Report is called with nil when the watch shows all objects, and with each
	// failure. It must not block.
	Report func(error)
}

// Watch shows the objects of a kind for as long as they are needed. What is needed
// for as long as the controllers run is in their caches.
type Watch[T client.Object] struct {
	informer toolscache.SharedIndexInformer
	failure  atomic.Pointer[error]
}

// StartWatch starts a watch that runs until ctx ends, as one of running.
func StartWatch[T client.Object](ctx context.Context, running *sync.WaitGroup, o WatchOptions[T]) (*Watch[T], error) {
	w := &Watch[T]{informer: toolscache.NewSharedIndexInformer(o.listWatch(), o.Object, 0, toolscache.Indexers{})}
	if err := w.informer.SetTransform(cache.TransformStripManagedFields()); err != nil {
		return nil, err
	}
	err := w.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *toolscache.Reflector, err error) {
		w.failure.Store(&err)
		o.Report(err)
	})
	if err != nil {
		return nil, err
	}
	handled, err := w.informer.AddEventHandler(o.handler())
	if err != nil {
		return nil, err
	}
	running.Go(func() { w.informer.RunWithContext(ctx) })
	running.Go(func() {
		select {
		case <-handled.HasSyncedChecker().Done():
			o.Report(nil)
		case <-ctx.Done():
		}
	})
	return w, nil
}

func (o WatchOptions[T]) listWatch() *toolscache.ListWatch {
	with := func(raw metav1.ListOptions) []client.ListOption {
		return append([]client.ListOption{&client.ListOptions{Raw: &raw}}, o.Select...)
	}
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			list := o.List.DeepCopyObject().(client.ObjectList)
			return list, o.Client.List(ctx, list, with(raw)...)
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (apiwatch.Interface, error) {
			return o.Client.Watch(ctx, o.List.DeepCopyObject().(client.ObjectList), with(raw)...)
		},
	}
}

func (o WatchOptions[T]) handler() toolscache.ResourceEventHandler {
	var none T
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { o.Changed(none, now.(T)) },
		UpdateFunc: func(before, now any) { o.Changed(before.(T), now.(T)) },
		DeleteFunc: func(now any) {
			if last, ok := now.(toolscache.DeletedFinalStateUnknown); ok {
				now = last.Obj
			}
			if gone, ok := now.(T); ok {
				o.Changed(none, gone)
			}
		},
	}
}

// IsComplete reports whether the watch shows all objects.
func (w *Watch[T]) IsComplete() bool { return w.informer.HasSynced() }

// Failure is why the watch failed last, nil when it never has.
func (w *Watch[T]) Failure() error {
	if err := w.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Get returns an object; one without a namespace has "". It is shared: do not change
// it.
func (w *Watch[T]) Get(namespace, name string) (object T, ok bool) {
	key := toolscache.ObjectName{Namespace: namespace, Name: name}.String()
	found, ok, err := w.informer.GetStore().GetByKey(key)
	if err != nil || !ok {
		return object, false
	}
	object, ok = found.(T)
	return object, ok
}

// Objects are all objects, in no order. They are shared: do not change them.
func (w *Watch[T]) Objects() []T {
	all := w.informer.GetStore().List()
	objects := make([]T, 0, len(all))
	for _, one := range all {
		if o, ok := one.(T); ok {
			objects = append(objects, o)
		}
	}
	return objects
}
