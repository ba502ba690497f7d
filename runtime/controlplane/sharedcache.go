package controlplane

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/sharing"
)

// sharedReads is the store that a watch cache reads, at its start all of it: objects share
// what they have in common as soon as they are read. A watch cache keeps them aside until it
// has read all, which without sharing takes several times the memory of what it keeps then.
type sharedReads struct {
	storage.Interface
	table *sharing.Table
}

// GetList implements storage.Interface.
func (s sharedReads) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	err := s.Interface.GetList(ctx, key, o, list)
	if err != nil {
		return err
	}
	return meta.EachListItem(list, func(o runtime.Object) error {
		s.table.Object(o)
		return nil
	})
}

// Watch implements storage.Interface.
func (s sharedReads) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	w, err := s.Interface.Watch(ctx, key, o)
	if err != nil || o.SendInitialEvents == nil || !*o.SendInitialEvents {
		return w, err
	}
	initial := true
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		switch {
		case !initial:
		case e.Type == watch.Added:
			s.table.Object(e.Object)
		case e.Type == watch.Bookmark:
			initial = false // later objects share their parts when the cache asks for their attributes
		}
		return e, true
	}), nil
}

// sharedCaches has the watch caches of a getter's resources share equal parts of their
// objects.
type sharedCaches struct{ generic.RESTOptionsGetter }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g sharedCaches) GetRESTOptions(
	resource schema.GroupResource, example runtime.Object,
) (generic.RESTOptions, error) {
	o, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	o.Decorator = sharedCache
	return o, err
}

// sharedCache opens a store behind a watch cache, as Kubernetes does where nothing is
// shared.
func sharedCache(
	config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
	newObject, newList func() runtime.Object,
	attributes storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	store, destroy, err := generic.NewRawStorage(config, newObject, newList, prefix)
	if err != nil {
		return store, destroy, err
	}
	shared := sharing.NewTable()
	cached, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: sharedReads{store, shared}, Versioner: storage.APIObjectVersioner{},
		GroupResource: config.GroupResource, EventsHistoryWindow: config.EventsHistoryWindow, ResourcePrefix: prefix,
		KeyFunc: key, NewFunc: newObject, NewListFunc: newList, IndexerFuncs: trigger, Indexers: indexers,
		Codec: config.Codec,
		// The cache asks this once for each object, before anybody else has the object.
		GetAttrsFunc: func(o runtime.Object) (labels.Set, fields.Set, error) {
			shared.Object(o)
			l, f, err := attributes(o)
			return shared.Labels(l), f, err
		},
	})
	if err != nil {
		destroy()
		return nil, func() {}, err
	}
	served := cacher.NewCacheDelegator(cached, store)
	var once sync.Once
	return served, func() {
		once.Do(func() {
			served.Stop()
			cached.Stop()
			destroy()
		})
	}, nil
}
