package work

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
)

const (
	// lightInspection is how long the rules of a work may keep the agent busy at
	// one look before the work has to wait for its turn among the slow ones.
	lightInspection = 100 * time.Millisecond
	// lightCost is what the rules about one object may cost without a turn.
	lightCost = expression.CallLimit
	// longInspection is for how long, once it has its turn.
	longInspection = time.Second
	// inspectionPause is how long the rest of a work's objects wait then, so that
	// slow works take a small part of the agent's time.
	inspectionPause = 10 * time.Second
	// slowInspections is how many slow works are looked at at once. The other
	// workers are there for those that are not.
	slowInspections = 1
)

// inspection evaluates the feedback and condition rules of one work on its
// objects, at one look at the work. What the author of a work wants to know costs
// that work: the objects of its that are left when the time is up wait, and are
// reported as they were.
type inspection struct {
	clock clock.PassiveClock
	turn  chan struct{} // what slow works have to get a place in

	mu   sync.Mutex // one object at a time: one processor
	took time.Duration
	slow bool // has its turn
}

// end gives back the turn, and reports whether the work is a slow one.
func (i *inspection) end() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	slow := i.took >= lightInspection
	if i.slow {
		i.slow = false
		<-i.turn
	}
	i.took = longInspection
	return slow
}

// open reports whether there is time left for another object.
func (i *inspection) open() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hasTime()
}

// hasTime is called with i.mu held.
func (i *inspection) hasTime() bool {
	switch {
	case i.took < lightInspection:
		return true
	case i.took >= longInspection:
		return false
	case i.slow:
		return true
	}
	select {
	case i.turn <- struct{}{}:
		i.slow = true
	default:
	}
	return i.slow
}

// do calls f unless the time is up, and reports whether it has done what it is
// for. f is told whether the work has its turn, and returns whether it needs that.
func (i *inspection) do(f func(turn bool) (needsTurn bool)) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.hasTime() {
		turn, start := i.slow, i.clock.Now()
		needs := f(turn)
		i.took += i.clock.Since(start)
		if !needs || turn {
			return true
		}
		i.took = max(i.took, lightInspection)
	}
	return false
}

// inspect notes what the rules of a manifest yield for its object, which it lets
// go of.
func (a *agent) inspect(ctx context.Context, o *outcome, m *manifest) {
	live := o.live
	if o.live = nil; live == nil || len(m.feedback) == 0 && len(m.rules) == 0 {
		return
	}
	done := m.inspection.do(func(turn bool) bool {
		budget := expression.NewBudget()
		if !turn {
			budget = expression.BudgetOf(lightCost)
		}
		o.feedback = readFeedback(m.feedback, live, a.maxRaw)
		o.conditions = a.rules.evaluate(ctx, m.rules, live, budget)
		return budget.Spent() > lightCost
	})
	if !done {
		o.feedback, o.conditions = feedback{}, nil
		o.waits, o.later = true, jittered(inspectionPause)
	}
}
