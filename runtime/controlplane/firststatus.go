package controlplane

import (
	"context"
	"maps"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// FirstStatus gives the objects of a custom resource their status in the write that
// creates them. A client can't set it then, and a controller that sets it afterwards
// needs a second write, which costs the server as much as the first one. The
// resource has to have a status that clients don't write.
type FirstStatus struct {
	Resource schema.GroupResource
	// Of is the status of an object that is about to be created, or nil for none. It
	// is called within the request, must not change the object, and is safe for
	// concurrent use.
	Of func(*unstructured.Unstructured) map[string]any
}

// withFirstStatus has the server for custom resources set the first statuses.
func withFirstStatus(extensions *apiextensionsapiserver.Config, first []FirstStatus) {
	if len(first) > 0 {
		extensions.ExtraConfig.CRDRESTOptionsGetter = firstStatusGetter{extensions.ExtraConfig.CRDRESTOptionsGetter, first}
	}
}

// firstStatusGetter says how custom resources are stored.
type firstStatusGetter struct {
	generic.RESTOptionsGetter
	first []FirstStatus
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g firstStatusGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return o, err
	}
	for _, first := range g.first {
		if first.Resource != resource {
			continue
		}
		open := o.Decorator
		o.Decorator = func(
			config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error), newObject, newList func() runtime.Object,
			attributes storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			store, destroy, err := open(config, prefix, key, newObject, newList, attributes, trigger, indexers)
			return firstStatusStore{store, first.Of}, destroy, err
		}
	}
	return o, nil
}

// firstStatusStore sets the status of what is created in a store.
type firstStatusStore struct {
	storage.Interface
	of func(*unstructured.Unstructured) map[string]any
}

// Create implements storage.Interface.
func (s firstStatusStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return s.Interface.Create(ctx, key, s.complete(obj), out, ttl)
}

// GuaranteedUpdate implements storage.Interface. A server-side apply creates objects
// by it.
func (s firstStatusStore) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions,
	update storage.UpdateFunc, cached runtime.Object,
) error {
	completing := func(existing runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		obj, ttl, err := update(existing, meta)
		if err == nil && meta.ResourceVersion == 0 {
			obj = s.complete(obj)
		}
		return obj, ttl, err
	}
	return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, completing, cached)
}

// complete returns the object with its first status.
func (s firstStatusStore) complete(obj runtime.Object) runtime.Object {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj
	}
	status := s.of(u)
	if status == nil {
		return obj
	}
	completed := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
	completed.Object["status"] = status
	return completed
}
