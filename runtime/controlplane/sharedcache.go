package controlplane

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// sharedReads is the store that a watch cache reads. What it watches shares its parts by the
// store's codec, and what it lists by this.
type sharedReads struct {
	storage.Interface
	table *sharing.Table
	since *atomic.Uint64 // the version that the cache has read first, and follows from then on
}

// GetList implements storage.Interface.
func (s sharedReads) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	err := s.Interface.GetList(ctx, key, o, list)
	if err != nil {
		return err
	}
	if version, err := s.Versioner().ObjectResourceVersion(list); err == nil {
		s.since.Store(version)
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

// sharedCaches has the watch caches of a getter's resources share equal parts of their
// objects, and remembers them.
type sharedCaches struct {
	generic.RESTOptionsGetter
	served *servedKinds
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g sharedCaches) GetRESTOptions(
	resource schema.GroupResource, example runtime.Object,
) (generic.RESTOptions, error) {
	o, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	o.Decorator = g.open
	return o, err
}

// open opens a store behind a watch cache, as Kubernetes does where nothing is shared.
func (g sharedCaches) open(
	config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
	newObject, newList func() runtime.Object,
	attributes storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	shared := sharing.NewTable()
	stored := *config
	stored.Codec = sharing.NewCodec(config.Codec, shared)
	store, destroy, err := generic.NewRawStorage(&stored, newObject, newList, prefix)
	if err != nil {
		return store, destroy, err
	}
	since := &atomic.Uint64{}
	cached, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: sharedReads{store, shared, since}, Versioner: storage.APIObjectVersioner{},
		GroupResource: config.GroupResource, EventsHistoryWindow: config.EventsHistoryWindow, ResourcePrefix: prefix,
		KeyFunc: key, NewFunc: newObject, NewListFunc: newList, IndexerFuncs: trigger, Indexers: indexers,
		Codec: config.Codec,
		GetAttrsFunc: func(o runtime.Object) (labels.Set, fields.Set, error) {
			l, f, err := attributes(o)
			return shared.Labels(l), f, err
		},
	})
	if err != nil {
		destroy()
		return nil, func() {}, err
	}
	served := cacher.NewCacheDelegator(cached, store)
	version := newObject().GetObjectKind().GroupVersionKind().Version
	forget := g.served.add(config.GroupResource.WithVersion(version), &servedStore{
		Interface: served, cacher: cached, prefix: prefix, newList: newList, attributes: attributes,
	})
	var once sync.Once
	return resumedWatches{served, store, cached.Ready, since}, func() {
		once.Do(func() {
			forget()
			served.Stop()
			cached.Stop()
			destroy()
		})
	}, nil
}
