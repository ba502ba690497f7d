// Package watch says which events of a watch concern a controller, and which objects it
// then reconciles.
package watch

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Request is for an object without a namespace.
func Request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// Requests are for the objects of these keys.
func Requests(keys []types.NamespacedName) []reconcile.Request {
	out := make([]reconcile.Request, 0, len(keys))
	for _, key := range keys {
		out = append(out, reconcile.Request{NamespacedName: key})
	}
	return out
}

// ClusterOfNamespace enqueues the ManagedCluster in whose namespace an object
// is.
func ClusterOfNamespace() handler.EventHandler {
	return named(func(o client.Object) string { return o.GetNamespace() })
}

// Named enqueues the object without a namespace that has an object's name.
func Named() handler.EventHandler {
	return named(func(o client.Object) string { return o.GetName() })
}

// ValueOfLabel enqueues the object that a label names.
func ValueOfLabel(label string) handler.EventHandler {
	return named(func(o client.Object) string { return o.GetLabels()[label] })
}

// Always enqueues the same request, whatever happens.
func Always(name string) handler.EventHandler {
	return named(func(client.Object) string { return name })
}

// After delays what a handler enqueues, so that one pass follows changes that come together.
func After(delay time.Duration, h handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { h.Create(ctx, e, later{q, delay}) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { h.Update(ctx, e, later{q, delay}) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { h.Delete(ctx, e, later{q, delay}) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) {
			h.Generic(ctx, e, later{q, delay})
		},
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// later is a queue to which requests are added after a delay.
type later struct {
	queue
	delay time.Duration
}

func (q later) Add(r reconcile.Request) { q.AddAfter(r, q.delay) }

func named(name func(client.Object) string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if n := name(o); n != "" {
			return []reconcile.Request{Request(n)}
		}
		return nil
	})
}

// Matching lists the objects that the options select, and returns requests for
// those that keep keeps; nil keeps all. Reading from a cache fails only when the
// hub is being stopped.
func Matching[T client.Object](
	ctx context.Context, r client.Reader, list client.ObjectList, keep func(T) bool, options ...client.ListOption,
) []reconcile.Request {
	if err := r.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "find the objects that a change concerns")
		return nil
	}
	var out []reconcile.Request
	_ = meta.EachListItem(list, func(o runtime.Object) error { // the error is that of the function
		if item, ok := o.(T); ok && (keep == nil || keep(item)) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item)})
		}
		return nil
	})
	return out
}

// Event is what a watch reports.
type Event int

// What may happen to an object. At a start, all objects are created.
const (
	Created Event = iota
	Updated
	Deleted
)

// Only lets these events pass.
func Only(events ...Event) predicate.Predicate {
	passes := func(e Event) bool { return slices.Contains(events, e) }
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return passes(Created) },
		UpdateFunc:  func(event.UpdateEvent) bool { return passes(Updated) },
		DeleteFunc:  func(event.DeleteEvent) bool { return passes(Deleted) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// Appears lets new and changed objects pass, and not the end of one.
func Appears() predicate.Predicate { return Only(Created, Updated) }

// Changed lets updates pass that change something of interest, and all other
// events.
func Changed[T client.Object](changed func(was, is T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(T)
		is, also := e.ObjectNew.(T)
		return ok && also && changed(was, is)
	}}
}

// When lets events of objects pass that are of interest now.
func When[T client.Object](concerned func(T) bool) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		is, ok := o.(T)
		return ok && concerned(is)
	})
}
