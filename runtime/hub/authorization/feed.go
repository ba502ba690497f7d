package authorization

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// feed stores what a reflector finds.
type feed struct {
	agents *Agents
	// set records an object, or nil for one that is gone, and all are the names of those
	// that are recorded. Both are called with the lock.
	set func(name string, o any) error
	all func() []string
	// filled is done with the first list.
	filled *sync.Once
}

var _ cache.ReflectorStore = feed{}

// clusterFeed stores ManagedClusters.
func (g *Agents) clusterFeed() feed {
	names := func() []string { return slices.Collect(maps.Keys(g.clusters)) }
	return feed{agents: g, set: g.setCluster, all: names, filled: g.clustersFilled}
}

// namespaceFeed stores the namespaces of clusters.
func (g *Agents) namespaceFeed() feed {
	names := func() []string { return slices.Collect(maps.Keys(g.namespaces)) }
	return feed{agents: g, set: g.setNamespace, all: names, filled: g.namespacesFilled}
}

// Add stores an object.
func (f feed) Add(o any) error { return f.store(o, false) }

// Update stores an object.
func (f feed) Update(o any) error { return f.store(o, false) }

// Delete removes an object.
func (f feed) Delete(o any) error { return f.store(o, true) }

// Resync is part of cache.ReflectorStore.
func (feed) Resync() error { return nil }

func (f feed) store(o any, gone bool) error {
	object, ok := o.(client.Object)
	if !ok {
		return fmt.Errorf("got a %T, want an object", o)
	}
	f.agents.mu.Lock()
	defer f.agents.mu.Unlock()
	if gone {
		return f.set(object.GetName(), nil)
	}
	return f.set(object.GetName(), o)
}

// Replace stores a whole list.
func (f feed) Replace(list []any, _ string) error {
	now := make(map[string]any, len(list))
	for _, o := range list {
		object, ok := o.(client.Object)
		if !ok {
			return fmt.Errorf("got a %T, want an object", o)
		}
		now[object.GetName()] = o
	}
	f.agents.mu.Lock()
	defer f.agents.mu.Unlock()
	for _, name := range f.all() {
		if _, ok := now[name]; !ok {
			if err := f.set(name, nil); err != nil {
				return err
			}
		}
	}
	for name, o := range now {
		if err := f.set(name, o); err != nil {
			return err
		}
	}
	f.filled.Do(func() {
		if f.agents.unfilled--; f.agents.unfilled == 0 {
			close(f.agents.filled)
		}
	})
	return nil
}
