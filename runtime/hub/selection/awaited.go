package selection

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Awaited remembers which objects have clusters in their placements' decisions that
// get nothing yet, so that a change of the cluster wakes them. It is empty after a
// start, when every object is looked at. It is safe for concurrent use.
type Awaited struct {
	mu      sync.Mutex
	objects map[string]sets.Set[types.NamespacedName] // by cluster
	names   map[types.NamespacedName][]string         // the clusters by object
}

// Remember replaces what an object waits for.
func (a *Awaited) Remember(object types.NamespacedName, clusters []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range a.names[object] {
		a.objects[name].Delete(object)
		if len(a.objects[name]) == 0 {
			delete(a.objects, name)
		}
	}
	delete(a.names, object)
	if len(clusters) == 0 {
		return
	}
	if a.objects == nil {
		a.objects, a.names = map[string]sets.Set[types.NamespacedName]{}, map[types.NamespacedName][]string{}
	}
	a.names[object] = clusters
	for _, name := range clusters {
		if a.objects[name] == nil {
			a.objects[name] = sets.Set[types.NamespacedName]{}
		}
		a.objects[name].Insert(object)
	}
}

// Of are the objects that wait for a cluster.
func (a *Awaited) Of(cluster string) []types.NamespacedName {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.objects[cluster].UnsortedList()
}

// In are the objects of a namespace that wait for any cluster; of all namespaces
// when it is empty.
func (a *Awaited) In(namespace string) (found []types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for object := range a.names {
		if namespace == "" || object.Namespace == namespace {
			found = append(found, object)
		}
	}
	return found
}
