package incremental

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// Scheduled is the result of a placement and the facts that it is based on.
type Scheduled struct {
	Placement *clusterv1beta1.Placement
	// Present are the decisions that belong to the placement, by name.
	Present []*clusterv1beta1.PlacementDecision
	// Result is the same as from the plain algorithm, but without the fields
	// that explain it: Filters, Scores, Total and Explanations. Run the plain
	// algorithm on Input for those.
	Result scheduling.Result
	// Funnel is the number of clusters that remain after each step.
	Funnel Funnel
}

// Funnel is the number of clusters that remain after each step of a scheduling.
type Funnel struct {
	// Available is how many clusters are in a set that the placement chooses
	// from, Matching how many of them satisfy a predicate, and Tolerated how
	// many of these have no taint that excludes them.
	Available, Matching, Tolerated int
}

// Schedule decides what a placement chooses at a time; false means that the
// placement does not exist. It judges what has not been judged yet, which may
// take long: see TrySchedule.
func (e *Engine) Schedule(key types.NamespacedName, now time.Time) (Scheduled, bool) {
	for {
		s, state := e.TrySchedule(key, now)
		if state != Unjudged {
			return s, state == Decided
		}
		if _, err := e.Judge(context.Background(), key, 0); err != nil {
			return Scheduled{}, false
		}
	}
}

// State is the outcome of an attempt to schedule.
type State int

const (
	// Decided means that there is a result.
	Decided State = iota
	// Unknown means that the placement does not exist.
	Unknown
	// Unjudged means that the placement has to be judged first.
	Unjudged
)

// TrySchedule decides what a placement chooses at a time, unless it has to be
// judged first, which only Judge does.
func (e *Engine) TrySchedule(key types.NamespacedName, now time.Time) (Scheduled, State) {
	out, p, outcome, ranked, state := e.decide(key, now)
	if state != Decided {
		return Scheduled{}, state
	}
	// The rest runs without the engine's lock.
	if outcome.Misconfigured == nil {
		outcome.Chosen = p.Choose(ranked).Chosen
	}
	p.Conclude(outcome, &out.Result)
	return out, Decided
}

// decide does the part of a scheduling that depends on the fleet.
func (e *Engine) decide(key types.NamespacedName, now time.Time) (out Scheduled, compiled *scheduling.Compiled, outcome scheduling.Outcome, ranked []scheduling.Ranked, state State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.placements[key]
	if p == nil {
		return out, nil, outcome, nil, Unknown
	}
	if p.reads.everything && !p.judged() {
		return out, nil, outcome, nil, Unjudged
	}
	changed := e.refresh(p, now)
	out = Scheduled{Placement: p.object, Present: e.decisions.of(p.object)}
	out.Funnel = Funnel{Available: p.available(), Matching: p.matching.n, Tolerated: p.candidates.n}
	problem := p.compiled.Misconfigured(out.Funnel.Available, out.Funnel.Matching)
	outcome = scheduling.Outcome{Sets: p.sets, Available: out.Funnel.Available, Misconfigured: problem, Costly: e.costly(p)}
	if problem == nil {
		ranked = e.rankedBest(p, changed)
		outcome.Warning = e.warning(p)
	}
	if wake := p.deadlines.first().wake; !wake.IsZero() {
		out.Result.RequeueAfter = max(1, wake.Sub(now))
	}
	return out, p.compiled, outcome, ranked, Decided
}

// available is how many clusters the placement can choose from.
func (p *placement) available() int {
	if len(p.eligible) == 1 {
		return p.eligible[0].members.n
	}
	return p.members().n
}

// members are the clusters that the placement can choose from.
func (p *placement) members() *bitset {
	out := &bitset{}
	for _, s := range p.eligible {
		out.add(&s.members)
	}
	return out
}

// refresh updates the results for the clusters, and returns the clusters whose
// rank may have changed.
func (e *Engine) refresh(p *placement, now time.Time) []uint32 {
	if now.Before(p.looked) {
		p.all = true
	}
	p.looked = now
	var changed []uint32
	if p.all {
		p.forget()
		p.members().each(func(slot uint32) { e.look(p, slot, true, now) })
		return nil
	}
	p.deadlines.past(now, func(slot uint32) { p.dirty.set(slot, true) })
	p.dirty.each(func(slot uint32) {
		c := e.fleet.slots[slot]
		e.look(p, slot, c != nil && p.sees(c), now)
		changed = append(changed, slot)
	})
	p.dirty.clear()
	return changed
}

// forget removes all results.
func (p *placement) forget() {
	p.matching.clear()
	p.candidates.clear()
	p.avoided.clear()
	for i := range p.expired {
		p.expired[i].clear()
	}
	p.dirty.clear()
	p.deadlines = deadlines{}
	p.ranking.valid = false
	p.all = false
}

// look computes for one cluster whether it satisfies the predicates, whether
// its taints are tolerated, and until when that is valid. available is whether
// it is in a set that the placement chooses from.
func (e *Engine) look(p *placement, slot uint32, available bool, now time.Time) {
	c := e.fleet.slots[slot]
	matches := available && !p.broken && (p.reads.everything && p.judgements.match.has(slot) || !p.reads.everything && p.compiled.Matches(c.view, nil))
	if !matches && !p.matching.has(slot) {
		return // and nothing else is remembered of it
	}
	var tolerance scheduling.Tolerance
	var d deadline
	if matches && !p.intolerant {
		selected := p.selected.has(slot)
		tolerance = p.compiled.Tolerates(c.view, selected, now)
		d.due = tolerance.Until
		if selected {
			d.wake = tolerance.Until
		}
	}
	p.matching.set(slot, matches)
	p.candidates.set(slot, tolerance.OK)
	p.avoided.set(slot, tolerance.OK && tolerance.Avoid)
	for i, prioritizer := range p.compiled.Prioritizers() {
		if prioritizer.Kind != scheduling.AddOn {
			continue
		}
		var s scheduling.Published
		if tolerance.OK {
			s = scheduling.PublishedScore(c.scores[prioritizer.AddOn.ResourceName], prioritizer.AddOn.ScoreName, now)
		}
		p.expired[i].set(slot, s.Expired)
		d.due, d.wake = sooner(d.due, s.Until), sooner(d.wake, s.Until)
	}
	p.deadlines.set(slot, d)
}

// warning lists the scores that have expired.
func (e *Engine) warning(p *placement) *scheduling.Problem {
	for i, prioritizer := range p.compiled.Prioritizers() {
		if p.expired[i].n == 0 {
			continue
		}
		var names []string
		for _, c := range e.fleet.inOrder(&p.expired[i]) {
			names = append(names, c.name+"/"+prioritizer.AddOn.ResourceName)
		}
		return &scheduling.Problem{Plugin: prioritizer.Name, Message: scheduling.ExpiredMessage(names)}
	}
	return nil
}

// rankedBest are the best of the candidates in order of rank, as many as the
// placement chooses from.
func (e *Engine) rankedBest(p *placement, changed []uint32) []scheduling.Ranked {
	n, limited := p.compiled.NumberOfClusters()
	want := n
	if !limited || p.compiled.Spreads() {
		want = p.candidates.n
	}
	if !limited && p.object.Spec.SortBy != clusterv1beta1.PlacementSortByScore {
		// All of them in the order of their names, because scores decide
		// nothing.
		p.ranking = ranking{}
		return ranked(e.fleet.inOrder(&p.candidates))
	}
	e.rank(p, want, changed)
	best := p.ranking.best[:min(want, len(p.ranking.best))]
	out := make([]scheduling.Ranked, 0, len(best))
	for _, s := range best {
		out = append(out, scheduling.Ranked{View: s.c.view, Total: s.total, Avoid: s.avoid})
	}
	return out
}

func ranked(clusters []*cluster) []scheduling.Ranked {
	out := make([]scheduling.Ranked, 0, len(clusters))
	for _, c := range clusters {
		out = append(out, scheduling.Ranked{View: c.view})
	}
	return out
}

// Total is a candidate's weighted sum of scores.
type Total struct {
	Cluster string
	Total   int64
}

// Totals are the totals of the first candidates of a placement by name, as of
// its last scheduling.
func (e *Engine) Totals(key types.NamespacedName, first int) []Total {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.placements[key]
	if p == nil || p.reads.everything && !p.judgements.prepared || p.compiled.Misconfigured(p.available(), p.matching.n) != nil {
		return nil
	}
	b := e.basisOf(p)
	var out []Total
	for _, c := range e.fleet.inOrder(&p.candidates) {
		if len(out) == first {
			break
		}
		if c.view != nil {
			out = append(out, Total{Cluster: c.name, Total: e.total(p, c, b)})
		}
	}
	return out
}
