package controlplane

import (
	"context"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/sharing"
)

// watched is a store that sends these events.
type watched struct {
	storage.Interface
	events []watch.Event
}

func (w watched) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	f := watch.NewFakeWithChanSize(len(w.events), false)
	for _, e := range w.events {
		f.Action(e.Type, e.Object)
	}
	f.Stop()
	return f, nil
}

// A watch cache reads all objects at its start by a watch, and keeps them aside until it has
// read the last one.
func TestWhatAWatchCacheReadsAtItsStartIsShared(t *testing.T) {
	one := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"image": "app:1"}}}
	}
	for name, c := range map[string]struct {
		initial *bool
		second  watch.EventType // of three
		shared  bool
	}{
		"at the start":      {ptr.To(true), watch.Added, true},
		"after the start":   {ptr.To(true), watch.Bookmark, false},
		"no initial events": {ptr.To(false), watch.Added, false},
		"by default":        {nil, watch.Added, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := sharedReads{watched{events: []watch.Event{
				{Type: watch.Added, Object: one()}, {Type: c.second, Object: one()}, {Type: watch.Added, Object: one()},
			}}, sharing.NewTable()}
			w, err := store.Watch(t.Context(), "", storage.ListOptions{SendInitialEvents: c.initial})
			if err != nil {
				t.Fatal(err)
			}
			var specs []uintptr
			for e := range w.ResultChan() {
				specs = append(specs, reflect.ValueOf(e.Object.(*unstructured.Unstructured).Object["spec"]).Pointer())
			}
			if len(specs) != 3 || (specs[0] == specs[2]) != c.shared {
				t.Errorf("the specs are at %v, want the first and the last in one place: %t", specs, c.shared)
			}
		})
	}
}
