package incremental

import (
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// placement is a placement with the state of its last scheduling.
type placement struct {
	key      types.NamespacedName
	object   *clusterv1beta1.Placement
	compiled *scheduling.Compiled
	reads    reads

	// The sets that it chooses from.
	sets     scheduling.Sets
	eligible []*set

	// selected are the clusters in its present decisions, and repeated how many
	// more times a cluster is in them.
	selected bitset
	repeated map[uint32]int

	// The results for each cluster, and the clusters whose results are
	// outdated: those that are dirty, or all.
	matching, candidates, avoided bitset
	expired                       []bitset // by prioritizer
	deadlines                     deadlines
	dirty                         bitset
	all                           bool

	// judgements are the verdicts of the predicates, for a placement that is
	// judged separately.
	judgements judgements

	// looked is when the results were computed.
	looked time.Time

	// broken is whether its predicates are invalid, intolerant whether its
	// tolerations contradict themselves, balances whether it ranks by balance.
	broken, intolerant, balances bool

	ranking ranking
}

// reads is what a placement depends on.
type reads struct {
	terms []term
	// scores are the names of AddOnPlacementScores that it reads, and anyScore
	// is whether it may read any of them.
	scores   sets.Set[string]
	anyScore bool
	// everything is whether the placement is judged separately, after any
	// change of a cluster.
	everything bool
	// divides is whether labels or claims decide on anything besides a match.
	divides bool
	// free are the resources that it ranks by.
	free [resources]bool
}

func readsOf(spec *clusterv1beta1.PlacementSpec, c *scheduling.Compiled) reads {
	r := reads{scores: sets.Set[string]{}}
	selector := func(l metav1.LabelSelector, claims clusterv1beta1.ClusterClaimSelector) {
		r.terms = append(r.terms, termsOf(label, &l)...)
		r.terms = append(r.terms, termsOf(claimed, &metav1.LabelSelector{MatchExpressions: claims.MatchExpressions})...)
	}
	for _, p := range spec.Predicates {
		s := p.RequiredClusterSelector
		selector(s.LabelSelector, s.ClaimSelector)
	}
	// The names of scores in expressions are only known at evaluation.
	r.anyScore = c.HasExpressions()
	r.everything = r.anyScore || c.Length() > longSelectors
	for _, g := range spec.DecisionStrategy.GroupStrategy.DecisionGroups {
		selector(g.GroupClusterSelector.LabelSelector, g.GroupClusterSelector.ClaimSelector)
		r.divides = true
	}
	for _, s := range spec.SpreadPolicy.SpreadConstraints {
		t := term{source: label, aspect: anything, key: s.TopologyKey}
		if s.TopologyKeyType == clusterv1beta1.TopologyKeyTypeClaim {
			t.source = claimed
		}
		r.terms = append(r.terms, t)
		r.divides = true
	}
	for _, p := range c.Prioritizers() {
		switch p.Kind {
		case scheduling.Allocatable:
			r.free[resourceOf(p.Resource)] = true
		case scheduling.AddOn:
			r.scores.Insert(p.AddOn.ResourceName)
		}
	}
	return r
}

// UpsertPlacement stores a new or changed placement. It always affects the
// placement itself, if only because a user may have changed the status.
func (e *Engine) UpsertPlacement(o *clusterv1beta1.Placement) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := keyOf(o)
	n := e.namespace(o.Namespace)
	p := e.placements[key]
	if p != nil && p.object.UID != o.UID {
		e.drop(p)
		p = nil
	}
	if p != nil && p.object.Generation == o.Generation && apiequality.Semantic.DeepEqual(p.object.Spec, o.Spec) {
		p.object = o
		return []types.NamespacedName{key}
	}
	if p == nil {
		p = &placement{key: key}
		e.placements[key] = p
		n = e.namespace(o.Namespace)
		n.placements.Insert(p)
		if o.UID != "" {
			n.uids[o.UID] = p
		}
		for _, d := range e.decisions.of(o) {
			for i := range d.Status.Decisions {
				p.own(e.fleet.getOrCreate(d.Status.Decisions[i].ClusterName), 1)
			}
		}
	} else {
		e.unsubscribe(p)
	}
	p.object = o
	// Without the status, which changes with the placement's own results.
	p.compiled = scheduling.Compile(&clusterv1beta1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Generation: o.Generation}, Spec: o.Spec,
	}, e.options)
	p.reads = readsOf(&o.Spec, p.compiled)
	p.intolerant = p.compiled.Intolerant()
	p.judgements = judgements{}
	if !p.reads.everything {
		p.broken = p.compiled.Unreadable()
	}
	p.balances = slices.ContainsFunc(p.compiled.Prioritizers(), func(x scheduling.Prioritizer) bool { return x.Kind == scheduling.Balance })
	p.expired = make([]bitset, len(p.compiled.Prioritizers()))
	p.all = true
	e.subscribe(p)
	e.resolve(p, n)
	return []types.NamespacedName{key}
}

// DeletePlacement removes a placement. That affects no other: its decisions
// count for balance as long as they exist.
func (e *Engine) DeletePlacement(key types.NamespacedName) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.placements[key]
	if p == nil {
		return nil
	}
	e.drop(p)
	return []types.NamespacedName{key}
}

func (e *Engine) drop(p *placement) {
	e.unsubscribe(p)
	e.detach(p)
	delete(e.placements, p.key)
	n := e.namespace(p.key.Namespace)
	delete(n.placements, p)
	delete(n.uids, p.object.UID)
	e.release(p.key.Namespace)
}

func (e *Engine) subscribe(p *placement) {
	e.placementTerms.add(p.reads.terms, p)
	if p.reads.everything {
		e.everything.Insert(p)
	}
	for name := range p.reads.scores {
		if e.scoreReaders[name] == nil {
			e.scoreReaders[name] = sets.Set[*placement]{}
		}
		e.scoreReaders[name].Insert(p)
	}
}

func (e *Engine) unsubscribe(p *placement) {
	e.placementTerms.remove(p.reads.terms, p)
	delete(e.everything, p)
	for name := range p.reads.scores {
		delete(e.scoreReaders[name], p)
		if len(e.scoreReaders[name]) == 0 {
			delete(e.scoreReaders, name)
		}
	}
}

// touch makes the placement evaluate a cluster again, and reports it as
// affected. A placement that has to evaluate all of them was reported before:
// ahead of the first scheduling of many placements, every cluster would affect
// them all.
func (p *placement) touch(c *cluster, a affected) {
	if p.all {
		return
	}
	p.dirty.set(c.slot, true)
	a.add(p)
}

// sees reports whether a cluster is in a set that the placement chooses from.
func (p *placement) sees(c *cluster) bool {
	for _, s := range c.sets {
		if s.users.Has(p) {
			return true
		}
	}
	return false
}

// settled reports whether the results for a cluster are up to date.
func (p *placement) settled(c *cluster) bool { return !p.all && !p.dirty.has(c.slot) }

// mayMatch reports whether a cluster can satisfy the predicates.
func (p *placement) mayMatch(c *cluster) bool { return !p.settled(c) || p.matching.has(c.slot) }

// ranksBy reports whether the placement ranks by any of the resources.
func (p *placement) ranksBy(r [resources]bool) bool {
	for i := range r {
		if r[i] && p.reads.free[i] {
			return true
		}
	}
	return false
}

// selectsDifferently reports whether changed labels or claims of a cluster can
// change the result.
func (p *placement) selectsDifferently(c *cluster) bool {
	if !p.settled(c) || p.reads.everything {
		return true
	}
	matched, matches := p.matching.has(c.slot), p.canMatch(c)
	return matches != matched || matches && p.reads.divides
}

// canMatch reports whether a cluster satisfies the predicates. Expressions are
// evaluated later, by the scheduling.
func (p *placement) canMatch(c *cluster) bool {
	return p.reads.everything || !p.broken && p.compiled.Matches(c.view, nil)
}

// own adds to the count of a cluster in the placement's own decisions.
func (p *placement) own(c *cluster, by int) {
	if by == 0 {
		return
	}
	n := p.times(c) + by
	p.selected.set(c.slot, n > 0)
	if n > 1 {
		if p.repeated == nil {
			p.repeated = map[uint32]int{}
		}
		p.repeated[c.slot] = n - 1
	} else {
		delete(p.repeated, c.slot)
	}
	p.dirty.set(c.slot, true)
}

// times is how often a cluster is in the placement's own decisions.
func (p *placement) times(c *cluster) int {
	if !p.selected.has(c.slot) {
		return 0
	}
	return 1 + p.repeated[c.slot]
}

// elsewhere is in how many decisions of other placements a cluster is.
func (p *placement) elsewhere(c *cluster) int { return c.decisions - p.times(c) }
