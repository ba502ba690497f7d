package replicaset

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// awaited remembers which sets have clusters in their decisions that get no work
// yet, so that a change of the cluster wakes them. It is empty after a start,
// when every set is looked at.
type awaited struct {
	mu    sync.Mutex
	sets  map[string]sets.Set[types.NamespacedName] // by cluster
	names map[types.NamespacedName][]string         // the clusters by set
}

// remember replaces what a set waits for.
func (a *awaited) remember(set types.NamespacedName, clusters []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range a.names[set] {
		a.sets[name].Delete(set)
		if len(a.sets[name]) == 0 {
			delete(a.sets, name)
		}
	}
	delete(a.names, set)
	if len(clusters) == 0 {
		return
	}
	if a.sets == nil {
		a.sets, a.names = map[string]sets.Set[types.NamespacedName]{}, map[types.NamespacedName][]string{}
	}
	a.names[set] = clusters
	for _, name := range clusters {
		if a.sets[name] == nil {
			a.sets[name] = sets.Set[types.NamespacedName]{}
		}
		a.sets[name].Insert(set)
	}
}

// of are the sets that wait for a cluster.
func (a *awaited) of(cluster string) []types.NamespacedName {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sets[cluster].UnsortedList()
}

// in are the sets of a namespace that wait for any cluster; of all namespaces
// when it is empty.
func (a *awaited) in(namespace string) (found []types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for set := range a.names {
		if namespace == "" || set.Namespace == namespace {
			found = append(found, set)
		}
	}
	return found
}
