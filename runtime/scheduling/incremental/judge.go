package incremental

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

const (
	// longSelectors is how many requirements, values and tolerations a placement has
	// at the most for it not to be judged apart.
	longSelectors = 200

	// perCluster is what it costs at least to judge a placement about a cluster, in
	// CEL's units: that the cluster is made readable for expressions.
	perCluster = 100

	// sliceTime ends a slice of judging, whatever it has cost until then.
	sliceTime = 20 * time.Millisecond

	// batch is how many clusters are taken out of the engine at once.
	batch = 64
)

// judgements are what a placement's predicates say, cluster by cluster.
type judgements struct {
	// prepared is that the expressions have been compiled.
	prepared bool
	// known are the clusters of which the verdict is known and holds, match those
	// of them that satisfy a predicate.
	known, match bitset
	// costly are the expressions that were given up, by slot.
	costly map[uint32]string
}

// drop forgets the verdict about a cluster.
func (j *judgements) drop(slot uint32) {
	j.known.set(slot, false)
	delete(j.costly, slot)
}

// misjudged forgets all verdicts about a cluster that is another one now.
func (e *Engine) misjudged(c *cluster) {
	c.changes++
	for p := range e.everything {
		p.judgements.drop(c.slot)
	}
}

// judged reports whether the verdicts about all clusters that the placement
// chooses from are known.
func (p *placement) judged() bool {
	if !p.judgements.prepared {
		return false
	}
	return p.broken || !p.members().without(&p.judgements.known, func(uint32) bool { return false })
}

// costly sums up what was given up.
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

// Progress is how far judging a placement has come.
type Progress struct {
	// Known is that there is such a placement.
	Known bool
	// Done is that TrySchedule can decide about it, unless something changes.
	Done bool
	// Cost is what was spent, in CEL's units.
	Cost int64
}

// Judge finds out what a placement's predicates say about the clusters of which
// that is not known, until it has spent slice, in CEL's units, or sliceTime has
// passed; about one cluster at least. A slice of 0 has no end. It does so outside
// the engine's lock, and may be called for several placements at once. Its error
// is that the context has ended.
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

// round is some clusters about which a placement is to be judged, taken out of
// the engine.
type round struct {
	p        *placement
	compiled *scheduling.Compiled
	prepared bool
	cases    []aCase
}

// aCase is one of these clusters.
type aCase struct {
	c       *cluster
	changes uint64
	view    *scheduling.View
	scores  map[string]*clusterv1alpha1.AddOnPlacementScore
	verdict scheduling.Verdict
	done    bool
}

func (x *aCase) score(_, name string) *clusterv1alpha1.AddOnPlacementScore { return x.scores[name] }

// nextRound takes out what is to be judged next; nil is that there is no such
// placement.
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
		// What expressions derive from the cluster is several times its size, and goes
		// with the round.
		r.cases = append(r.cases, aCase{c: c, changes: c.changes, view: scheduling.NewView(c.view.ManagedCluster), scores: c.scores})
		return len(r.cases) < batch
	})
	return r
}

// commit enters what was found out, as far as it is still about what there is.
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
