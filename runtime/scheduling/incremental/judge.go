package incremental

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

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
