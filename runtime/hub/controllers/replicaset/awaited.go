package replicaset

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// awaited remembers which sets have clusters in their decisions that get no work
// yet, so that a change of the cluster wakes them. It is empty after a start,
// when every set is looked at.
type awaited struct {
	mu    sync.Mutex
	sets  map[string]map[types.NamespacedName]bool // by cluster
	names map[types.NamespacedName][]string        // the clusters by set
}

// remember replaces what a set waits for.
func (a *awaited) remember(set types.NamespacedName, clusters []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range a.names[set] {
		delete(a.sets[name], set)
		if len(a.sets[name]) == 0 {
			delete(a.sets, name)
		}
	}
	delete(a.names, set)
	if len(clusters) == 0 {
		return
	}
	if a.sets == nil {
		a.sets, a.names = map[string]map[types.NamespacedName]bool{}, map[types.NamespacedName][]string{}
	}
	a.names[set] = clusters
	for _, name := range clusters {
		if a.sets[name] == nil {
			a.sets[name] = map[types.NamespacedName]bool{}
		}
		a.sets[name][set] = true
	}
}

// of are the sets that wait for a cluster.
func (a *awaited) of(cluster string) (sets []types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for set := range a.sets[cluster] {
		sets = append(sets, set)
	}
	return sets
}

// in are the sets of a namespace that wait for any cluster; of all namespaces
// when it is empty.
func (a *awaited) in(namespace string) (sets []types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for set := range a.names {
		if namespace == "" || set.Namespace == namespace {
			sets = append(sets, set)
		}
	}
	return sets
}
