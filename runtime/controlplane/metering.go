package controlplane

import (
	"context"
	"maps"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// metered puts a meter in front of the stores that a getter describes.
func metered(getter generic.RESTOptionsGetter, m extension.Meter) generic.RESTOptionsGetter {
	if m == nil {
		return getter
	}
	around := func(c *storagebackend.ConfigForResource, store storage.Interface) storage.Interface {
		return meteredStore{store, m, c.GroupResource, c.Codec}
	}
	return wrappedGetter{getter, around, func(t value.Transformer) value.Transformer {
		if t == nil {
			t = identity.NewEncryptCheckTransformer()
		}
		return meteredTransformer{t, m}
	}}
}

// wrappedGetter says how resources are stored: as another getter does, with stores, and if
// transform is set with transformers, that are put around its own.
type wrappedGetter struct {
	generic.RESTOptionsGetter
	around    func(*storagebackend.ConfigForResource, storage.Interface) storage.Interface
	transform func(value.Transformer) value.Transformer
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g wrappedGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return o, err
	}
	open := o.Decorator
	o.Decorator = func(
		config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error), newObject, newList func() runtime.Object,
		attributes storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		own := *config
		if g.transform != nil {
			own.Transformer = g.transform(own.Transformer)
		}
		store, destroy, err := open(&own, prefix, key, newObject, newList, attributes, trigger, indexers)
		return g.around(config, store), destroy, err
	}
	return o, nil
}

// charge is a write on its way through a store. Only meteredTransformer knows the
// size, and the store hides its error, so the charge carries it back.
type charge struct {
	extension.Write
	refusal error
}

type chargeKey struct{}

// meteredStore makes a charge for each write of a user that is metered.
type meteredStore struct {
	storage.Interface
	meter    extension.Meter
	resource schema.GroupResource
	codec    runtime.Codec
}

func (s meteredStore) begin(ctx context.Context) (context.Context, *charge) {
	u, ok := request.UserFrom(ctx)
	if !ok || !s.meter.Meters(u) {
		return ctx, nil
	}
	c := &charge{Write: extension.Write{User: u, Resource: s.resource}}
	return context.WithValue(ctx, chargeKey{}, c), c
}

// Create implements storage.Interface.
func (s meteredStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	ctx, c := s.begin(ctx)
	if c == nil {
		return s.Interface.Create(ctx, key, obj, out, ttl)
	}
	c.Creates = true
	c.describe(obj)
	return c.end(s.Interface.Create(ctx, key, obj, out, ttl))
}

// GuaranteedUpdate implements storage.Interface. A server-side apply creates objects
// by it.
func (s meteredStore) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions,
	update storage.UpdateFunc, cached runtime.Object,
) error {
	ctx, c := s.begin(ctx)
	if c == nil {
		return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, update, cached)
	}
	release := func() {}
	defer func() { release() }()
	measuring := func(existing runtime.Object, m storage.ResponseMeta) (runtime.Object, *uint64, error) {
		release()
		c.Creates, c.Before = m.ResourceVersion == 0, 0
		deletedBefore := isDeleted(existing)
		if !c.Creates {
			if stored, err := runtime.Encode(s.codec, existing); err == nil {
				c.Before = len(stored)
			}
		}
		var err error
		if release, err = s.meter.Hold(ctx, c.User, c.Before); err != nil {
			release = func() {}
			return nil, nil, err
		}
		obj, ttl, err := update(existing, m)
		if err == nil {
			c.describe(obj)
			c.Deletes = !c.Creates && !deletedBefore && isDeleted(obj)
		}
		return obj, ttl, err
	}
	return c.end(s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, measuring, cached))
}

func (c *charge) describe(obj runtime.Object) {
	if o, err := meta.Accessor(obj); err == nil {
		c.Namespace, c.Name = o.GetNamespace(), o.GetName()
	}
}

func (c *charge) end(err error) error {
	if err != nil && c.refusal != nil {
		return c.refusal
	}
	return err
}

func isDeleted(obj runtime.Object) bool {
	o, err := meta.Accessor(obj)
	return err == nil && !o.GetDeletionTimestamp().IsZero()
}

// meteredTransformer learns what is stored, and how large it is.
type meteredTransformer struct {
	value.Transformer
	meter extension.Meter
}

// TransformToStorage implements value.Transformer.
func (t meteredTransformer) TransformToStorage(ctx context.Context, data []byte, at value.Context) ([]byte, error) {
	if c, ok := ctx.Value(chargeKey{}).(*charge); ok {
		w := c.Write
		w.Key, w.Size = string(at.AuthenticatedData()), len(data)
		if c.refusal = t.meter.Charge(ctx, w); c.refusal != nil {
			return nil, c.refusal
		}
	}
	return t.Transformer.TransformToStorage(ctx, data, at)
}

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
	if len(first) == 0 {
		return
	}
	extensions.ExtraConfig.CRDRESTOptionsGetter = wrappedGetter{extensions.ExtraConfig.CRDRESTOptionsGetter, func(c *storagebackend.ConfigForResource, store storage.Interface) storage.Interface {
		for _, f := range first {
			if f.Resource == c.GroupResource {
				store = firstStatusStore{store, f.Of}
			}
		}
		return store
	}, nil}
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
