package controlplane

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
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
	return meteredGetter{getter, m}
}

type meteredGetter struct {
	generic.RESTOptionsGetter
	meter extension.Meter
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g meteredGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
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
		if own.Transformer == nil {
			own.Transformer = identity.NewEncryptCheckTransformer()
		}
		own.Transformer = meteredTransformer{own.Transformer, g.meter}
		store, destroy, err := open(&own, prefix, key, newObject, newList, attributes, trigger, indexers)
		return meteredStore{store, g.meter, config.GroupResource, config.Codec}, destroy, err
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
