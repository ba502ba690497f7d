package controlplane

import (
	"context"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// watchCaches are the watch caches of the built-in kinds. Without them to share from, an object
// is in memory up to four times: there, and in the informers of the API server, of Kubernetes'
// controllers and of the hub's. Each reads it by a request, so they have not even its strings in
// common.
type watchCaches struct {
	mu    sync.RWMutex
	kinds map[schema.GroupKind]watchCache
}

type watchCache struct {
	*cacher.Cacher
	key       func(runtime.Object) (string, error)
	newObject func() runtime.Object
}

func (c *watchCaches) add(
	cached *cacher.Cacher, key func(runtime.Object) (string, error), newObject func() runtime.Object,
) {
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(newObject())
	if err != nil {
		return // a kind of extensions or of aggregation
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds == nil {
		c.kinds = map[schema.GroupKind]watchCache{}
	}
	c.kinds[kinds[0].GroupKind()] = watchCache{cached, key, newObject}
}

func (c *watchCaches) of(kind schema.GroupKind) (watchCache, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	found, ok := c.kinds[kind]
	return found, ok
}

// shared is a cache.TransformFunc. It removes the managed fields of an object, which no
// informer here reads, and has the rest in common with the watch cache, as long as that has the
// same version. Who reads from an informer must not change what it gets, and nobody does.
func (c *watchCaches) shared(object any) (any, error) {
	read, ok := object.(runtime.Object)
	if !ok {
		return object, nil
	}
	metadata, err := meta.Accessor(read)
	if err != nil {
		return object, nil //nolint:nilerr // an object without metadata stays as it is
	}
	metadata.SetManagedFields(nil)
	if kept := c.find(read, metadata.GetResourceVersion()); kept != nil {
		return kept, nil
	}
	return object, nil
}

// find is an object as the watch cache has it, or nil if that has another version.
func (c *watchCaches) find(read runtime.Object, version string) runtime.Object {
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(read)
	if err != nil {
		return nil
	}
	from, ok := c.of(kinds[0].GroupKind())
	if !ok || !from.Ready() {
		return nil
	}
	key, err := from.key(read)
	if err != nil {
		return nil
	}
	kept := from.newObject()
	if err := from.Get(context.Background(), key, storage.GetOptions{ResourceVersion: "0"}, kept); err != nil {
		return nil
	}
	if m, err := meta.Accessor(kept); err != nil || m.GetResourceVersion() != version {
		return nil
	}
	// Where the store's kind and the API's have the same layout, this shares all that is in them.
	out, err := legacyscheme.Scheme.UnsafeConvertToVersion(kept, kinds[0].GroupVersion())
	if err != nil || reflect.TypeOf(out) != reflect.TypeOf(read) {
		return nil
	}
	metadata, err := meta.Accessor(out)
	if err != nil {
		return nil
	}
	metadata.SetManagedFields(nil)
	out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // informers have none
	return out
}

// shareObjects has the API server's own informers share what clusters have many of.
func shareObjects(all informers.SharedInformerFactory, shared cache.TransformFunc) error {
	rbac := all.Rbac().V1()
	for _, i := range []cache.SharedIndexInformer{
		rbac.Roles().Informer(), rbac.RoleBindings().Informer(),
		rbac.ClusterRoles().Informer(), rbac.ClusterRoleBindings().Informer(),
		all.Core().V1().Namespaces().Informer(),
	} {
		if err := i.SetTransform(shared); err != nil {
			return err
		}
	}
	return nil
}

// Shared transforms objects of built-in kinds that an informer in this process has read: they
// lose their managed fields, and have the rest in common with what the server has in memory.
// What comes of it must not be changed.
func (s *Server) Shared(object any) (any, error) { return s.caches.shared(object) }
