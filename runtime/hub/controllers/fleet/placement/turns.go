package placement

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
)

// turns decides which placement is judged next: in the namespace that has cost
// least, the placement that has cost least.
type turns map[string]*tenant

// tenant is a namespace with what it has cost. A namespace that had nothing to do
// for a while starts at the cost of the others, so that it saves nothing up.
type tenant struct {
	cost int64
	// waiting are the placements that wait for their turn, with what each has cost
	// since it began to.
	waiting map[string]int64
}

// add has a placement wait for its turn, unless it does.
func (t turns) add(key types.NamespacedName) {
	n := t[key.Namespace]
	if n == nil {
		n = &tenant{waiting: map[string]int64{}}
		t[key.Namespace] = n
	}
	if len(n.waiting) == 0 {
		if least, ok := t.least(); ok {
			n.cost = max(n.cost, t[least].cost)
		}
	}
	if _, ok := n.waiting[key.Name]; !ok {
		n.waiting[key.Name] = 0
	}
}

// least is the namespace that is next.
func (t turns) least() (string, bool) {
	best := ""
	for name, n := range t {
		if len(n.waiting) == 0 {
			continue
		}
		if best == "" || cmp.Or(cmp.Compare(n.cost, t[best].cost), cmp.Compare(name, best)) < 0 {
			best = name
		}
	}
	return best, best != ""
}

// next is the placement to judge next; false means that none waits.
func (t turns) next() (types.NamespacedName, bool) {
	namespace, ok := t.least()
	if !ok {
		return types.NamespacedName{}, false
	}
	n, best := t[namespace], ""
	for name, cost := range n.waiting {
		if best == "" || cmp.Or(cmp.Compare(cost, n.waiting[best]), cmp.Compare(name, best)) < 0 {
			best = name
		}
	}
	return types.NamespacedName{Namespace: namespace, Name: best}, true
}

// charge enters what a turn has cost, and whether the placement waits for
// another one.
func (t turns) charge(key types.NamespacedName, cost int64, more bool) {
	n := t[key.Namespace]
	if n == nil {
		return
	}
	n.cost += cost
	if more {
		n.waiting[key.Name] += cost
		return
	}
	delete(n.waiting, key.Name)
	for _, other := range t {
		if len(other.waiting) > 0 {
			return
		}
	}
	clear(t) // none waits: all start at 0 again
}
