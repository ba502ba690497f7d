package controlplane

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
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
}

// GetList implements storage.Interface.
func (s sharedReads) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	if err := s.Interface.GetList(ctx, key, o, list); err != nil {
		return err
	}
	return meta.EachListItem(list, func(o runtime.Object) error {
		s.table.Object(o)
		return nil
	})
}

// sharedCaches has the watch caches of a getter's resources share equal parts of their
// objects, and remembers them.
type sharedCaches struct {
	generic.RESTOptionsGetter
	raw    *rawStores
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

// open opens a store behind a watch cache that shares, and remembers it.
func (g sharedCaches) open(
	config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
	newObject, newList func() runtime.Object,
	attributes storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	shared := sharing.NewTable()
	stored := *config
	stored.Codec = sharing.NewCodec(config.Codec, shared)
	labelled := func(o runtime.Object) (labels.Set, fields.Set, error) {
		l, f, err := attributes(o)
		return shared.Labels(l), f, err
	}
	around := func(s storage.Interface) storage.Interface { return sharedReads{s, shared} }
	s, destroy, err := openCached(g.raw, &stored, around, prefix, key, newObject, newList, labelled, trigger, indexers)
	if err != nil {
		return nil, destroy, err
	}
	version := newObject().GetObjectKind().GroupVersionKind().Version
	forget := g.served.add(config.GroupResource.WithVersion(version), &servedStore{
		Interface: s.Interface, cacher: s.cached, prefix: prefix, newList: newList, attributes: attributes,
	})
	return streamed{s}, func() {
		forget()
		destroy()
	}, nil
}
