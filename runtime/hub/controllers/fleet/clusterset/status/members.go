package status

import (
	"sync"

	"k8s.io/apimachinery/pkg/labels"
)

// Members counts the clusters of each set as they come, go and are relabelled, so
// that one change costs a look at one cluster and not at all of them. It is safe
// for concurrent use.
type Members struct {
	mu       sync.Mutex
	complete bool // has seen all clusters that there were at the start
	clusters map[string]labels.Set
	sets     map[string]*setMembers
}

// setMembers are those of one set.
type setMembers struct {
	selector labels.Selector
	number   int
}

// NewMembers makes a count that knows no clusters.
func NewMembers() *Members {
	return &Members{clusters: map[string]labels.Set{}, sets: map[string]*setMembers{}}
}

// labelled takes note of a cluster's labels, and returns the sets that have more
// or fewer members by it. It keeps the map.
func (m *Members) labelled(cluster string, to labels.Set) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, known := m.clusters[cluster]
	m.clusters[cluster] = to
	return m.moved(from, known, to, true)
}

// gone notes that a cluster is gone, and returns the sets that had it.
func (m *Members) gone(cluster string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, known := m.clusters[cluster]
	delete(m.clusters, cluster)
	return m.moved(from, known, nil, false)
}

func (m *Members) moved(from labels.Set, was bool, to labels.Set, is bool) (changed []string) {
	for name, set := range m.sets {
		before, after := was && set.selector.Matches(from), is && set.selector.Matches(to)
		switch {
		case before == after:
			continue
		case after:
			set.number++
		default:
			set.number--
		}
		changed = append(changed, name)
	}
	return changed
}

// count is how many clusters a set has. It looks at all of them when the set is
// new or selects others than before.
func (m *Members) count(set string, selector labels.Selector) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.complete = true // the controller's watches are in step before it counts
	if have, ok := m.sets[set]; ok && have.selector.String() == selector.String() {
		return have.number
	}
	s := &setMembers{selector: selector, number: m.selected(selector)}
	m.sets[set] = s
	return s.number
}

// selected is how many clusters a selector selects.
func (m *Members) selected(selector labels.Selector) (number int) {
	for _, of := range m.clusters {
		if selector.Matches(of) {
			number++
		}
	}
	return number
}

// first is how many clusters a set has that is about to be created, if that is known
// here.
func (m *Members) first(selector labels.Selector) (number int, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.complete {
		return 0, false
	}
	return m.selected(selector), true
}

// forget notes that a set is gone.
func (m *Members) forget(set string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sets, set)
}
