package placement

import (
	"cmp"
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling/incremental"
)

const (
	// slice is what judging a placement may cost before the next one's turn, in
	// CEL's units: some milliseconds.
	slice = 20_000

	// short is how long a slice may take without a rest after it.
	short = 2 * time.Millisecond
)

// judge evaluates, slice by slice, the predicates of placements that take long:
// those with expressions, or with long selectors. Namespaces take turns by what
// they have cost, and so do the placements in each: a placement that costs much
// waits for those that cost little, and a tenant's placements wait for their own.
// There is one judge, and it rests as long as it works: it takes half a processor
// at most.
type judge struct {
	engine *incremental.Engine
	// ready has a placement scheduled that has been judged.
	ready func(types.NamespacedName)

	mu    sync.Mutex
	turns turns
	wake  chan struct{}
}

func newJudge(e *incremental.Engine, ready func(types.NamespacedName)) *judge {
	return &judge{engine: e, ready: ready, turns: turns{}, wake: make(chan struct{}, 1)}
}

// add has a placement judged.
func (j *judge) add(key types.NamespacedName) {
	j.mu.Lock()
	j.turns.add(key)
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// next is whose turn it is.
func (j *judge) next() (types.NamespacedName, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.turns.next()
}

// charge enters what a placement has cost, and whether it goes on.
func (j *judge) charge(key types.NamespacedName, cost int64, more bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.turns.charge(key, cost, more)
}

// run judges until the context ends.
func (j *judge) run(ctx context.Context) error {
	for {
		key, ok := j.next()
		if !ok {
			select {
			case <-ctx.Done():
				return nil
			case <-j.wake:
			}
			continue
		}
		start := time.Now()
		progress, err := j.engine.Judge(ctx, key, slice)
		if err != nil {
			return nil //nolint:nilerr // the context has ended, and that is no failure
		}
		more := progress.Known && !progress.Done
		j.charge(key, progress.Cost, more)
		if !more {
			j.ready(key)
		}
		if worked := time.Since(start); worked > short {
			rest := time.NewTimer(worked)
			select {
			case <-ctx.Done():
			case <-rest.C:
			}
			rest.Stop()
		}
	}
}

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
