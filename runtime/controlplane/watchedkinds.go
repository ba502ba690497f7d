package controlplane

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"
)

// watchedKinds opens the stores of those built-in kinds that a fleet's agents watch: their
// objects are found by the value of a label, and the watches go on after a restart.
type watchedKinds struct {
	generic.RESTOptionsGetter
	raw        *rawStores
	selectedBy map[schema.GroupResource]string
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g watchedKinds) GetRESTOptions(
	resource schema.GroupResource, example runtime.Object,
) (generic.RESTOptions, error) {
	o, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	label, selected := g.selectedBy[resource]
	if err != nil || !selected {
		return o, err
	}
	o.Decorator = g.raw.cached(indexedBy(label), func(s resumedWatches) storage.Interface {
		return selectedStore{s, label}
	})
	return o, nil
}

// indexedBy has a watch cache find objects by the value of a label, and send their events to
// those watches alone that select the value, or all objects.
func indexedBy(label string) indexing {
	value := func(o runtime.Object) string {
		m, err := meta.Accessor(o)
		if err != nil {
			return ""
		}
		return m.GetLabels()[label]
	}
	return func(trigger storage.IndexerFuncs, indexers *cache.Indexers) (storage.IndexerFuncs, *cache.Indexers) {
		triggers, all := storage.IndexerFuncs{storage.LabelIndex(label): value}, cache.Indexers{
			storage.LabelIndex(label): func(o any) ([]string, error) {
				object, ok := o.(runtime.Object)
				if !ok {
					return nil, fmt.Errorf("a %T has no labels", o)
				}
				return []string{value(object)}, nil
			},
		}
		maps.Copy(triggers, trigger)
		if indexers != nil {
			maps.Copy(all, *indexers)
		}
		return triggers, &all
	}
}

// selectedStore is a store whose watch cache is indexedBy a label.
type selectedStore struct {
	storage.Interface
	label string
}

// GetList implements storage.Interface.
func (s selectedStore) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	o.Predicate.IndexLabels = []string{s.label}
	return s.Interface.GetList(ctx, key, o, list)
}

// Watch implements storage.Interface.
func (s selectedStore) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	o.Predicate.IndexLabels = []string{s.label}
	return s.Interface.Watch(ctx, key, o)
}
