package report

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	"github.com/muster-fleet/terraform-provider-muster/internal/fieldpath"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
)

const (
	// lightInspection is how long the rules of a work may keep the agent busy in
	// one pass before the work has to wait for its turn among the slow ones.
	lightInspection = 100 * time.Millisecond
	// lightCost is what the rules about one object may cost without a turn, and
	// lightPaths what the paths may.
	lightCost  = expression.CallLimit
	lightPaths = fieldpath.ObjectBudget / 10
	// longInspection is for how long, once it has its turn.
	longInspection = time.Second
	// inspectionPause is how long the rest of a work's objects wait then, so that
	// slow works take a small part of the agent's time.
	inspectionPause = 10 * time.Second
	// pathsTimeout ends the evaluation of the paths of one object, whatever they have
	// cost until then: a net below the costs, as expressions have one.
	pathsTimeout = expression.Timeout
	// slowInspections is how many slow works are inspected at once. The other
	// workers are there for those that are not.
	slowInspections = 1
)

// errPathsTimeout is the cause of the end of paths that took longer.
var errPathsTimeout = fmt.Errorf("the paths took longer than %s", pathsTimeout)

// Inspector evaluates what works bring: their feedback and condition rules, and the
// paths to the fields that they ignore. It is safe for concurrent use.
type Inspector struct {
	rules  *rules
	maxRaw int
	clock  clock.PassiveClock
	turns  *semaphore.Weighted // of slow works
}

// NewInspector makes an inspector. maxRaw is the longest JSON, in bytes, that
// feedback may hold; with 0 it holds none.
func NewInspector(clock clock.PassiveClock, maxRaw int) (*Inspector, error) {
	r, err := newRules()
	return &Inspector{rules: r, maxRaw: maxRaw, clock: clock, turns: semaphore.NewWeighted(slowInspections)}, err
}

// Begin begins the inspection of a work in a pass. One that was slow the last time takes its turn
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

// Inspection evaluates the rules and paths of one work on its objects, in one pass
// over the work. What the author of a work wants costs that work: the objects that
// are left when the time is up wait, and are reported as they were.
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

// ObjectInspection evaluates what a work brings for one of its manifests. The paths to
// ignored fields and those of feedback share a budget.
type ObjectInspection struct {
	*Inspection
	manifest *manifest.Manifest
	paths    int // what the paths have cost until now
}

// Object begins the look at one manifest.
func (i *Inspection) Object(m *manifest.Manifest) *ObjectInspection {
	return &ObjectInspection{Inspection: i, manifest: m}
}

// WithoutIgnored takes the ignored fields from the manifest's object. When there is
// no time left for that, wait is how long the manifest waits.
func (o *ObjectInspection) WithoutIgnored(ctx context.Context) (rest *manifest.Rest, wait time.Duration, err error) {
	var paths *fieldpath.Budget
	done := o.do(func(turn bool) bool {
		ctx, end := context.WithTimeoutCause(ctx, pathsTimeout, errPathsTimeout)
		defer end()
		paths = o.budget(turn)
		rest, err = manifest.WithoutIgnored(ctx, o.manifest.Required, o.manifest.Ignored, paths)
		return paths.Spent() > lightPaths
	})
	if !done {
		return nil, inspectionPause, nil
	}
	o.paths = paths.Spent()
	return rest, 0, err
}

// budget is what the paths may still cost.
func (o *ObjectInspection) budget(turn bool) *fieldpath.Budget {
	if turn {
		return fieldpath.BudgetOf(fieldpath.ObjectBudget - o.paths)
	}
	return fieldpath.BudgetOf(lightPaths - o.paths)
}

// Inspect is what the rules of the manifest yield for its object as it is in the
// cluster. When there is no time left for them, wait is how long the object waits.
func (o *ObjectInspection) Inspect(
	ctx context.Context, live *unstructured.Unstructured,
) (out Findings, wait time.Duration) {
	m := o.manifest
	if len(m.FeedbackRules) == 0 && len(m.ConditionRules) == 0 {
		return Findings{}, 0
	}
	done := o.do(func(turn bool) bool {
		budget := expression.NewBudget()
		if !turn {
			budget = expression.BudgetOf(lightCost)
		}
		paths := o.budget(turn)
		out.Feedback = readFeedback(ctx, m.FeedbackRules, live, o.maxRaw, paths)
		out.Conditions = o.rules.evaluate(ctx, m.ConditionRules, live, budget)
		return budget.Spent() > lightCost || o.paths+paths.Spent() > lightPaths
	})
	if !done {
		return Findings{}, inspectionPause
	}
	return out, 0
}
