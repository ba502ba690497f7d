package inspect

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
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

// Inspector evaluates the feedback and condition rules of works. It is safe for
// concurrent use.
type Inspector struct {
	rules  *rules
	maxRaw int
	clock  clock.PassiveClock
	turns  *semaphore.Weighted // of slow works
}

// New makes an inspector. maxRaw is the longest JSON, in bytes, that
// feedback may hold; with 0 it holds none.
func New(clock clock.PassiveClock, maxRaw int) (*Inspector, error) {
	r, err := newRules()
	return &Inspector{rules: r, maxRaw: maxRaw, clock: clock, turns: semaphore.NewWeighted(slowInspections)}, err
}

// Begin begins a look at a work. One that was slow the last time takes its turn
// from the beginning. The inspection has to be ended.
func (i *Inspector) Begin(slow bool) *Inspection {
	x := &Inspection{Inspector: i}
	if slow {
		x.took = lightInspection
	}
	return x
}

// Findings are what the rules of a manifest yield for its object.
type Findings struct {
	Feedback   Feedback
	Conditions []metav1.Condition
}

// Inspection evaluates the rules of one work on its objects, at one look at the
// work. What the author of a work wants to know costs that work: the objects
// that are left when the time is up wait, and are reported as they were.
type Inspection struct {
	*Inspector

	mu   sync.Mutex // one object at a time: one processor
	took time.Duration
	slow bool // has its turn
}

// End gives back the turn, and reports whether the work is a slow one.
func (i *Inspection) End() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	slow := i.took >= lightInspection
	if i.slow {
		i.slow = false
		i.turns.Release(1)
	}
	i.took = longInspection
	return slow
}

// Open reports whether there is time left for another object.
func (i *Inspection) Open() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hasTime()
}

// hasTime is called with i.mu held.
func (i *Inspection) hasTime() bool {
	switch {
	case i.took < lightInspection:
		return true
	case i.took >= longInspection:
		return false
	case i.slow:
		return true
	}
	i.slow = i.turns.TryAcquire(1)
	return i.slow
}

// do calls f unless the time is up, and reports whether it has done what it is
// for. turn says whether the work has its turn; f returns whether it needs that.
func (i *Inspection) do(f func(turn bool) (needsTurn bool)) bool {
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

// Inspect is what the rules of a manifest yield for its object. When there is no
// time left for them, wait is how long the object waits.
func (i *Inspection) Inspect(
	ctx context.Context, m *manifest.Manifest, live *unstructured.Unstructured,
) (out Findings, wait time.Duration) {
	if len(m.FeedbackRules) == 0 && len(m.ConditionRules) == 0 {
		return Findings{}, 0
	}
	done := i.do(func(turn bool) bool {
		budget := expression.NewBudget()
		if !turn {
			budget = expression.BudgetOf(lightCost)
		}
		out.Feedback = readFeedback(m.FeedbackRules, live, i.maxRaw)
		out.Conditions = i.rules.evaluate(ctx, m.ConditionRules, live, budget)
		return budget.Spent() > lightCost
	})
	if !done {
		return Findings{}, inspectionPause
	}
	return out, 0
}
