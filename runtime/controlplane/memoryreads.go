package controlplane

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/inprocess"
)

// ListerWatcher reads custom resources for a cache in this process from the memory of the
// server, without requests: nothing is encoded and decoded again, and the strings of an
// object are in memory once. It reads as the administrator: no authorizer, audit log or
// limit sees it.
func (s *Server) ListerWatcher(r extension.Reads) cache.ListerWatcher {
	if r.Labels == nil {
		r.Labels = labels.Everything()
	}
	without := [][]string{{"metadata", "managedFields"}}
	for _, path := range r.Without {
		without = append(without, strings.Split(path, "."))
	}
	return &memoryReader{
		server: s, resource: r.Resource, labels: r.Labels, requests: cache.ToListerWatcherWithContext(r.Requests),
		typed: func(u *unstructured.Unstructured) (runtime.Object, error) {
			o, err := r.Scheme.New(r.Kind)
			if err != nil {
				return nil, err
			}
			content := u.Object
			for _, path := range without {
				content = cut(content, path)
			}
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, o)
			if err != nil || r.Transform == nil {
				return o, err
			}
			kept, err := r.Transform(o)
			if err != nil {
				return nil, err
			}
			if o, ok := kept.(runtime.Object); ok {
				return o, nil
			}
			return nil, fmt.Errorf("the transform made a %T of it", kept)
		},
	}
}

// cut returns a map without the field at a path, and leaves the given one as it is.
func cut(m map[string]any, path []string) map[string]any {
	v, ok := m[path[0]]
	if !ok {
		return m
	}
	inner, isMap := v.(map[string]any)
	if len(path) > 1 && !isMap {
		return m
	}
	m = maps.Clone(m)
	if len(path) == 1 {
		delete(m, path[0])
	} else {
		m[path[0]] = cut(inner, path[1:])
	}
	return m
}

// servedKinds are the stores of the custom resources that a server serves. The server makes
// one with the first request, and another one when the definition has changed.
type servedKinds struct {
	mu     sync.Mutex
	stores map[schema.GroupVersionResource]*servedStore
}

// servedStore is the store of one kind.
type servedStore struct {
	storage.Interface
	cacher     *cacher.Cacher
	prefix     string
	newList    func() runtime.Object
	attributes storage.AttrFunc
}

func (k *servedKinds) get(resource schema.GroupVersionResource) *servedStore {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stores[resource]
}

// add remembers a store until the function that it returns is called.
func (k *servedKinds) add(resource schema.GroupVersionResource, s *servedStore) (forget func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stores == nil {
		k.stores = map[schema.GroupVersionResource]*servedStore{}
	}
	k.stores[resource] = s
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.stores[resource] == s {
			delete(k.stores, resource)
		}
	}
}

// memoryReader implements cache.ListerWatcherWithContext.
type memoryReader struct {
	server   *Server
	resource schema.GroupVersionResource
	labels   labels.Selector
	requests cache.ListerWatcherWithContext // as long as the server serves no such kind
	typed    func(*unstructured.Unstructured) (runtime.Object, error)
}

// store is that of the kind; nil if the server does not serve it.
func (r *memoryReader) store(ctx context.Context) (*servedStore, error) {
	if s := r.server.served.get(r.resource); s != nil {
		return s, nil
	}
	// The server opens the store before it answers, whatever it answers.
	url := r.server.URL + path.Join("/apis", r.resource.Group, r.resource.Version, r.resource.Resource)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?resourceVersion=0&limit=1", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+r.server.token)
	response, err := inprocess.Transport{Handler: r.server.handler}.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	return r.server.served.get(r.resource), response.Body.Close()
}

// List implements cache.Lister.
func (r *memoryReader) List(o metav1.ListOptions) (runtime.Object, error) {
	return r.ListWithContext(context.Background(), o)
}

// Watch implements cache.Watcher.
func (r *memoryReader) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return r.WatchWithContext(context.Background(), o)
}

// IsWatchListSemanticsUnSupported has caches list first: what a list has is not copied.
func (r *memoryReader) IsWatchListSemanticsUnSupported() bool { return true }

// ListWithContext implements cache.ListerWithContext. It waits until the server has read
// all objects itself.
func (r *memoryReader) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	s, err := r.store(ctx)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return r.requests.ListWithContext(ctx, o)
	}
	if err := s.cacher.Wait(ctx); err != nil {
		return nil, fmt.Errorf("wait until the server has read all %s: %w", r.resource.Resource, err)
	}
	list := s.newList()
	if err := s.GetList(ctx, s.prefix, r.options(s, o), list); err != nil {
		return nil, err
	}
	found, ok := list.(*unstructured.UnstructuredList)
	if !ok {
		return nil, fmt.Errorf("the server has %s as %T", r.resource.Resource, list)
	}
	out := &internalversion.List{ListMeta: metav1.ListMeta{ResourceVersion: found.GetResourceVersion()}}
	out.Items = make([]runtime.Object, len(found.Items))
	for i := range found.Items {
		if out.Items[i], err = r.object(&found.Items[i]); err != nil {
			return nil, err
		}
		found.Items[i].Object = nil // what was only for this list can go
	}
	return out, nil
}

// WatchWithContext implements cache.WatcherWithContext.
func (r *memoryReader) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s, err := r.store(ctx)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return r.requests.WatchWithContext(ctx, o)
	}
	var cancel context.CancelFunc
	if o.TimeoutSeconds != nil {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*o.TimeoutSeconds)*time.Second)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	stored, err := s.Watch(ctx, s.prefix, r.options(s, o))
	if err != nil {
		cancel()
		return nil, err
	}
	w := &memoryWatch{events: make(chan watch.Event), stop: func() {
		cancel()
		stored.Stop()
	}}
	go func() {
		defer close(w.events)
		for e := range stored.ResultChan() { // it is closed when ctx ends
			select {
			case w.events <- r.event(e):
			case <-ctx.Done():
			}
		}
	}()
	return w, nil
}

// memoryWatch implements watch.Interface.
type memoryWatch struct {
	events chan watch.Event
	stop   func()
}

// ResultChan implements watch.Interface.
func (w *memoryWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *memoryWatch) Stop() { w.stop() }

func (r *memoryReader) options(s *servedStore, o metav1.ListOptions) storage.ListOptions {
	return storage.ListOptions{
		ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch, Recursive: true,
		Predicate: storage.SelectionPredicate{
			Label: r.labels, Field: fields.Everything(), GetAttrs: s.attributes,
			AllowWatchBookmarks: o.AllowWatchBookmarks,
		},
	}
}

func (r *memoryReader) event(e watch.Event) watch.Event {
	o := e.Object
	if several, ok := o.(runtime.CacheableObject); ok { // several watches get this event
		o = several.GetObject()
	}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return e // why the watch ends
	}
	typed, err := r.object(u)
	if err != nil {
		status := apierrors.NewInternalError(err).Status()
		return watch.Event{Type: watch.Error, Object: &status}
	}
	return watch.Event{Type: e.Type, Object: typed}
}

func (r *memoryReader) object(u *unstructured.Unstructured) (runtime.Object, error) {
	o, err := r.typed(u)
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", r.resource.Resource, u.GetNamespace(), u.GetName(), err)
	}
	return o, nil
}
