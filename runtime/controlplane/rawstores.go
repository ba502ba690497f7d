package controlplane

import (
	"sync"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/etcd"
)

// rawStores opens the stores of resources. An external etcd is asked as Kubernetes does, by a
// connection for each resource; the one in this process is called.
type rawStores struct {
	member *etcd.Server // nil for an external etcd
	caches watchCaches

	mu        sync.Mutex
	compactor compactor
}

// compactor forgets what the store has had some minutes ago.
type compactor interface {
	etcd3.Compactor
	Stop()
}

// open opens the store of a resource, without a watch cache.
func (r *rawStores) open(
	config *storagebackend.ConfigForResource, newObject, newList func() runtime.Object, prefix string,
) (storage.Interface, factory.DestroyFunc, error) {
	if r.member == nil {
		return generic.NewRawStorage(config, newObject, newList, prefix)
	}
	client := &kubernetes.Client{Client: r.member.Client()}
	client.Kubernetes = client
	client.KV = etcd3.NewETCDLatencyTracker(client.KV)
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	store, err := etcd3.New(client, r.compacting(config), config.Codec, newObject, newList, config.Prefix, prefix,
		config.GroupResource, transformer, config.LeaseManagerConfig,
		etcd3.NewDefaultDecoder(config.Codec, versioner), versioner)
	if err != nil {
		_ = client.Close()
		return nil, func() {}, err
	}
	var once sync.Once
	return store, func() {
		once.Do(func() {
			store.Close()
			_ = client.Close()
		})
	}, nil
}

// uncached implements generic.StorageDecorator.
func (r *rawStores) uncached(
	config *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error),
	newObject, newList func() runtime.Object, _ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	return r.open(config, newObject, newList, prefix)
}

// cached returns a decorator that opens stores behind watch caches. index, if set, adds to the
// indexes of a cache, and wrap returns the store that is served.
func (r *rawStores) cached(index indexing, wrap func(resumedWatches) storage.Interface) generic.StorageDecorator {
	return func(
		config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
		newObject, newList func() runtime.Object,
		attributes storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		if index != nil {
			trigger, indexers = index(trigger, indexers)
		}
		itself := func(s storage.Interface) storage.Interface { return s }
		opened, destroy, err := openCached(
			r, config, itself, prefix, key, newObject, newList, attributes, trigger, indexers)
		if err == nil {
			r.caches.add(opened.cached, key, newObject)
		}
		return wrap(opened), destroy, err
	}
}

// indexing adds to the indexes of a watch cache.
type indexing func(storage.IndexerFuncs, *cache.Indexers) (storage.IndexerFuncs, *cache.Indexers)

// compacting is the compactor of all stores.
func (r *rawStores) compacting(config *storagebackend.ConfigForResource) etcd3.Compactor {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.compactor == nil {
		r.compactor = etcd3.NewCompactor(r.member.Client(), config.CompactionInterval, clock.RealClock{}, nil)
	}
	return r.compactor
}

// stop ends what goes on beside the stores.
func (r *rawStores) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.compactor != nil {
		r.compactor.Stop()
	}
}

// of has the resources of a getter kept in these stores.
func (r *rawStores) of(getter generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	if r.member == nil {
		return getter
	}
	return memberStores{getter, r}
}

// memberStores has the resources of a getter kept by an etcd in this process.
type memberStores struct {
	generic.RESTOptionsGetter
	raw *rawStores
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g memberStores) GetRESTOptions(
	resource schema.GroupResource, example runtime.Object,
) (generic.RESTOptions, error) {
	o, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return o, err
	}
	if size, set := kubeapiserver.DefaultWatchCacheSizes()[resource]; set && size == 0 { // events
		o.Decorator = g.raw.uncached
	} else {
		o.Decorator = g.raw.cached(nil, func(s resumedWatches) storage.Interface { return s.Interface })
	}
	return o, nil
}
