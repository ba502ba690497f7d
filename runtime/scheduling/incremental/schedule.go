package incremental

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
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

// deadline is when something about a cluster expires. Zero means never.
type deadline struct {
	// due is when the cluster has to be evaluated again.
	due time.Time
	// wake is when the placement has to be scheduled again because of it.
	wake time.Time
}

// deadlines are the deadlines of a placement's clusters by slot, with the
// earliest ones.
type deadlines struct {
	of       map[uint32]deadline
	earliest deadline
	// stale is whether the earliest may have been removed.
	stale bool
}

// set replaces the deadline of a cluster.
func (x *deadlines) set(slot uint32, d deadline) {
	was, had := x.of[slot]
	if !had && d == (deadline{}) {
		return
	}
	x.stale = x.stale || had && (atFirst(was.due, x.earliest.due) || atFirst(was.wake, x.earliest.wake))
	if d == (deadline{}) {
		delete(x.of, slot)
		return
	}
	if x.of == nil {
		x.of = map[uint32]deadline{}
	}
	x.of[slot] = d
	x.earliest = deadline{due: sooner(x.earliest.due, d.due), wake: sooner(x.earliest.wake, d.wake)}
}

// atFirst reports whether a time is the earliest, so that another one has to be
// found when it is removed.
func atFirst(t, earliest time.Time) bool { return !t.IsZero() && t.Equal(earliest) }

// first is the earliest deadline.
func (x *deadlines) first() deadline {
	if x.stale {
		x.earliest, x.stale = deadline{}, false
		for _, d := range x.of {
			x.earliest = deadline{due: sooner(x.earliest.due, d.due), wake: sooner(x.earliest.wake, d.wake)}
		}
	}
	return x.earliest
}

// past calls a function with every slot that has to be evaluated again.
func (x *deadlines) past(now time.Time, f func(slot uint32)) {
	if due := x.first().due; due.IsZero() || now.Before(due) {
		return
	}
	for slot, d := range x.of {
		if !d.due.IsZero() && !now.Before(d.due) {
			f(slot)
		}
	}
}

// sooner is the earlier of two times, where zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

const (
	// longSelectors is the greatest number of requirements, values and
	// tolerations of a placement that is not judged separately.
	longSelectors = 200

	// perCluster is the minimum cost of judging a placement on a cluster, in
	// CEL's units: the cluster is converted for expressions.
	perCluster = 100

	// sliceTime ends a slice of judging, whatever its cost.
	sliceTime = 20 * time.Millisecond

	// batch is how many clusters a round takes from the engine.
	batch = 64
)

// judgements are the verdicts of a placement's predicates, cluster by cluster.
type judgements struct {
	// prepared is whether the expressions have been compiled.
	prepared bool
	// known are the clusters with a valid verdict, match those of them that
	// satisfy a predicate.
	known, match bitset
	// costly are the expressions that were given up, by slot.
	costly map[uint32]string
}

// drop removes the verdict about a cluster.
func (j *judgements) drop(slot uint32) {
	j.known.set(slot, false)
	delete(j.costly, slot)
}

// misjudged removes all verdicts about a changed cluster.
func (e *Engine) misjudged(c *cluster) {
	c.changes++
	for p := range e.everything {
		p.judgements.drop(c.slot)
	}
}

// judged reports whether the verdicts about all clusters of the placement's
// sets are known.
func (p *placement) judged() bool {
	if !p.judgements.prepared {
		return false
	}
	return p.broken || !p.members().without(&p.judgements.known, func(uint32) bool { return false })
}

// costly summarises the expressions that were given up.
func (e *Engine) costly(p *placement) scheduling.Costly {
	var out scheduling.Costly
	if len(p.judgements.costly) == 0 || p.broken {
		return out
	}
	members := p.members()
	for slot, text := range p.judgements.costly {
		if c := e.fleet.slots[slot]; c != nil && members.has(slot) {
			out.Add(c.name, text)
		}
	}
	return out
}

// Progress is the state of judging a placement.
type Progress struct {
	// Known is whether the placement exists.
	Known bool
	// Done is whether TrySchedule can decide, unless something changes.
	Done bool
	// Cost is the cost in CEL's units.
	Cost int64
}

// Judge evaluates a placement's predicates on the clusters without a verdict,
// until it has spent slice, in CEL's units, or sliceTime has passed, and on at
// least one cluster. A slice of 0 has no limit. It runs outside the engine's
// lock, and may be called for several placements at once. It returns an error
// only when the context has ended.
func (e *Engine) Judge(ctx context.Context, key types.NamespacedName, slice int64) (Progress, error) {
	var progress Progress
	for start := time.Now(); ; {
		r := e.nextRound(key)
		if r == nil {
			return progress, nil
		}
		progress.Known = true
		if !r.prepared {
			r.compiled.Prepare()
			e.commit(r)
			continue
		}
		if len(r.cases) == 0 {
			progress.Done = true
			return progress, nil
		}
		spent := func() bool { return slice > 0 && (progress.Cost >= slice || time.Since(start) > sliceTime) }
		for i := range r.cases {
			x := &r.cases[i]
			var err error
			if x.verdict, err = r.compiled.Judge(ctx, x.view, x.score); err != nil {
				return progress, err
			}
			x.done = true
			if progress.Cost += perCluster + x.verdict.Cost; spent() {
				break
			}
		}
		if e.commit(r); spent() {
			return progress, nil
		}
	}
}

// round is some clusters on which a placement is judged, copied from the
// engine.
type round struct {
	p        *placement
	compiled *scheduling.Compiled
	prepared bool
	cases    []judgedCluster
}

// judgedCluster is one of these clusters.
type judgedCluster struct {
	c       *cluster
	changes uint64
	view    *scheduling.View
	scores  map[string]*clusterv1alpha1.AddOnPlacementScore
	verdict scheduling.Verdict
	done    bool
}

func (x *judgedCluster) score(_, name string) *clusterv1alpha1.AddOnPlacementScore {
	return x.scores[name]
}

// nextRound copies what is judged next, or returns nil when the placement does
// not exist.
func (e *Engine) nextRound(key types.NamespacedName) *round {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.placements[key]
	if p == nil {
		return nil
	}
	r := &round{p: p, compiled: p.compiled, prepared: p.judgements.prepared || !p.reads.everything}
	if !r.prepared || p.broken || !p.reads.everything {
		return r
	}
	p.members().without(&p.judgements.known, func(slot uint32) bool {
		c := e.fleet.slots[slot]
		// The form in which expressions read a cluster is several times its
		// size, and is freed with the round.
		r.cases = append(r.cases, judgedCluster{c: c, changes: c.changes, view: scheduling.NewView(c.view.ManagedCluster), scores: c.scores})
		return len(r.cases) < batch
	})
	return r
}

// commit stores the verdicts, as far as their clusters and the placement have
// not changed.
func (e *Engine) commit(r *round) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := r.p
	if e.placements[p.key] != p || p.compiled != r.compiled {
		return
	}
	if !p.judgements.prepared {
		p.judgements.prepared = true
		p.broken = p.compiled.Unreadable()
		return
	}
	for i := range r.cases {
		x := &r.cases[i]
		if !x.done || x.c.changes != x.changes || x.c.view == nil || e.fleet.slots[x.c.slot] != x.c {
			continue
		}
		p.judgements.known.set(x.c.slot, true)
		p.judgements.match.set(x.c.slot, x.verdict.Matches)
		delete(p.judgements.costly, x.c.slot)
		if x.verdict.Costly != "" {
			if p.judgements.costly == nil {
				p.judgements.costly = map[uint32]string{}
			}
			p.judgements.costly[x.c.slot] = x.verdict.Costly
		}
	}
}
