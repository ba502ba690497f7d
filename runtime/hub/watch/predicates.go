package watch

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

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
