package incremental

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterapi "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// standing is everything that decides a candidate's rank.
type standing struct {
	c     *cluster
	total int64
	avoid bool
}

// compare is the order of scheduling.Compare.
func compare(a, b standing) int {
	if a.avoid != b.avoid {
		if a.avoid {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.c.name, b.c.name))
}

// basis is the values that all totals of a placement depend on. When it
// changes, all totals change.
type basis struct {
	// most is the highest count of decisions of other placements that any
	// cluster is in.
	most int
	// least and greatest are the limits of the candidates' free shares of a
	// resource.
	least, greatest [resources]float64
}

// ranking holds the best candidates of a placement and some more, so that it
// rarely has to rank all of them again.
type ranking struct {
	valid bool
	basis basis
	// counted is the number of the first change of counts that it does not
	// include.
	counted uint64
	// best are the best candidates in order.
	best []standing
	// rest is whether there are other candidates. All of them rank below the
	// last one, which need not be among the best any more.
	rest bool
	last standing
}

// oneByOne is about how many standings can be skipped in the time that it takes
// to compute one: it decides whether ranking all again is cheaper.
const oneByOne = 64

// spare is how many standings are kept in addition to the wanted ones.
func spare(want int) int { return want + 64 }

// rank updates the ranking, so that it holds as many of the best as are wanted.
func (e *Engine) rank(p *placement, want int, changed []uint32) {
	b := e.basisOf(p)
	r := &p.ranking
	counted, known := e.counts.after(r.counted)
	if !p.balances {
		counted, known = nil, true
	}
	if !r.valid || r.basis != b || !known || (len(changed)+len(counted))*(len(r.best)+oneByOne) > oneByOne*(p.candidates.n+oneByOne) {
		e.rankAll(p, want, b)
		return
	}
	for _, slots := range [][]uint32{changed, counted} {
		for _, slot := range slots {
			e.rankOne(p, slot, b)
		}
	}
	r.counted = e.counts.now()
	if limit := want + 2*spare(want); len(r.best) > limit {
		r.cut(want + spare(want))
	}
	if r.rest && len(r.best) < want {
		e.rankAll(p, want, b)
	}
}

// cut removes all but the best.
func (r *ranking) cut(keep int) {
	if len(r.best) <= keep {
		return
	}
	r.last, r.rest = r.best[keep-1], true
	clear(r.best[keep:])
	r.best = r.best[:keep]
}

// rankOne moves a cluster to its present rank.
func (e *Engine) rankOne(p *placement, slot uint32, b basis) {
	r := &p.ranking
	if at := slices.IndexFunc(r.best, func(s standing) bool { return s.c.slot == slot }); at >= 0 {
		r.best = slices.Delete(r.best, at, at+1)
	}
	if !p.candidates.has(slot) {
		return
	}
	c := e.fleet.slots[slot]
	s := standing{c: c, total: e.total(p, c, b), avoid: p.avoided.has(slot)}
	if r.rest && compare(s, r.last) > 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(r.best, s, compare)
	r.best = slices.Insert(r.best, at, s)
}

// rankAll ranks all candidates again.
func (e *Engine) rankAll(p *placement, want int, b basis) {
	r := &p.ranking
	keep := want + spare(want)
	*r = ranking{valid: true, basis: b, counted: e.counts.now(), best: r.best[:0]}
	for _, c := range e.fleet.inOrder(&p.candidates) {
		s := standing{c: c, total: e.total(p, c, b), avoid: p.avoided.has(c.slot)}
		if r.rest && compare(s, r.last) > 0 {
			continue
		}
		r.best = append(r.best, s)
		if len(r.best) >= 2*keep {
			slices.SortFunc(r.best, compare)
			r.cut(keep)
		}
	}
	slices.SortFunc(r.best, compare)
	r.cut(keep)
	if cap(r.best) > 4*len(r.best) {
		r.best = slices.Clone(r.best)
	}
}

// basisOf computes the basis of a placement's totals.
func (e *Engine) basisOf(p *placement) basis {
	var b basis
	if p.balances {
		b.most = e.counts.most(&e.fleet, p)
	}
	for r, reads := range p.reads.free {
		if !reads {
			continue
		}
		first := true
		p.candidates.each(func(slot uint32) {
			c := e.fleet.slots[slot]
			if c == nil || math.IsNaN(c.free[r]) {
				return
			}
			if first {
				b.least[r], b.greatest[r], first = c.free[r], c.free[r], false
			}
			b.least[r], b.greatest[r] = min(b.least[r], c.free[r]), max(b.greatest[r], c.free[r])
		})
	}
	return b
}

// total is the weighted sum of a candidate's scores.
func (e *Engine) total(p *placement, c *cluster, b basis) int64 {
	var sum int64
	for i, prioritizer := range p.compiled.Prioritizers() {
		var score int64
		switch prioritizer.Kind {
		case scheduling.Balance:
			score = scheduling.BalanceScore(p.elsewhere(c), b.most)
		case scheduling.Steady:
			score = scheduling.SteadyScore(p.selected.has(c.slot))
		case scheduling.Allocatable:
			if r := resourceOf(prioritizer.Resource); !math.IsNaN(c.free[r]) {
				score = scheduling.AllocatableScore(c.free[r], b.least[r], b.greatest[r])
			}
		case scheduling.AddOn:
			if !p.expired[i].has(c.slot) {
				score = scheduling.PublishedScore(c.scores[prioritizer.AddOn.ResourceName], prioritizer.AddOn.ScoreName, p.looked).Value
			}
		}
		sum += score * int64(prioritizer.Weight)
	}
	return sum
}

// numbered is the placement whose decisions have names of this form, or "".
func numbered(decision string) string {
	at := strings.LastIndex(decision, "-decision-")
	if at < 0 {
		return ""
	}
	if _, err := strconv.ParseUint(decision[at+len("-decision-"):], 10, 32); err != nil {
		return ""
	}
	return decision[:at]
}

// claim is one of the ways in which a decision identifies its placement: by
// name or UID. Its label, its owner or its own name is enough, because a user
// may have edited the others. A decision that is not recognised could never be
// re-created, because its name is taken.
type claim struct {
	namespace string
	name      string
	uid       types.UID
}

func claimsOf(d *clusterv1beta1.PlacementDecision) []claim {
	var out []claim
	for _, name := range []string{d.Labels[clusterapi.PlacementLabel], numbered(d.Name)} {
		if c := (claim{namespace: d.Namespace, name: name}); name != "" && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	if owner := metav1.GetControllerOfNoCopy(d); owner != nil && owner.UID != "" {
		out = append(out, claim{namespace: d.Namespace, uid: owner.UID})
	}
	return out
}

// claimsTo are the claims of the decisions that belong to a placement.
func claimsTo(p *clusterv1beta1.Placement) []claim {
	out := []claim{{namespace: p.Namespace, name: p.Name}}
	if p.UID != "" {
		out = append(out, claim{namespace: p.Namespace, uid: p.UID})
	}
	return out
}

// decision is a PlacementDecision with its claims.
type decision struct {
	object *clusterv1beta1.PlacementDecision
	claims []claim
}

type decisions struct {
	byKey   map[types.NamespacedName]*decision
	byClaim map[claim]sets.Set[*decision]
}

// of are the decisions of a placement, by name.
func (x *decisions) of(p *clusterv1beta1.Placement) []*clusterv1beta1.PlacementDecision {
	var out []*clusterv1beta1.PlacementDecision
	for _, c := range claimsTo(p) {
		for d := range x.byClaim[c] {
			out = append(out, d.object)
		}
	}
	slices.SortFunc(out, func(a, b *clusterv1beta1.PlacementDecision) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b *clusterv1beta1.PlacementDecision) bool { return a == b })
}

// UpsertDecision stores a new or changed decision, and returns the placements
// that it belongs to, or belonged to. The other placements are not scheduled
// because of it; they use it the next time that they are.
func (e *Engine) UpsertDecision(o *clusterv1beta1.PlacementDecision) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	return e.replaceDecision(key, &decision{object: o, claims: claimsOf(o)})
}

// DeleteDecision removes a decision, and returns the placements that it
// belonged to.
func (e *Engine) DeleteDecision(key types.NamespacedName) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.replaceDecision(key, nil)
}

func (e *Engine) replaceDecision(key types.NamespacedName, is *decision) []types.NamespacedName {
	a := affected{}
	was := e.decisions.byKey[key]
	before, after := e.ownersOf(was), e.ownersOf(is)
	if !slices.Equal(before, after) || was == nil || is == nil || !slices.Equal(was.object.Status.Decisions, is.object.Status.Decisions) {
		e.recount(was, is, before, after)
	}
	if was != nil {
		delete(e.decisions.byKey, key)
		for _, c := range was.claims {
			delete(e.decisions.byClaim[c], was)
			if len(e.decisions.byClaim[c]) == 0 {
				delete(e.decisions.byClaim, c)
			}
		}
	}
	if is != nil {
		e.decisions.byKey[key] = is
		for _, c := range is.claims {
			if e.decisions.byClaim[c] == nil {
				e.decisions.byClaim[c] = sets.Set[*decision]{}
			}
			e.decisions.byClaim[c].Insert(is)
		}
	}
	for _, p := range append(before, after...) {
		a.add(p)
	}
	return a.keys()
}

// ownersOf are the placements that a decision belongs to.
func (e *Engine) ownersOf(d *decision) []*placement {
	if d == nil {
		return nil
	}
	n := e.namespaces[d.object.Namespace]
	if n == nil {
		return nil
	}
	var out []*placement
	for _, c := range d.claims {
		p := e.placements[types.NamespacedName{Namespace: c.namespace, Name: c.name}]
		if c.uid != "" {
			p = n.uids[c.uid]
		}
		if p != nil && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// recount updates the counts for the clusters of a changed decision: the total
// counts, and those of the placements that it belonged and belongs to.
func (e *Engine) recount(was, is *decision, before, after []*placement) {
	gone, new, net := tally(was), tally(is), tally(is)
	for name, n := range gone {
		net[name] -= n
	}
	records := make(map[string]*cluster, len(net))
	for name, n := range net {
		c := e.fleet.getOrCreate(name)
		records[name] = c
		if n != 0 {
			e.counts.change(c, n)
		}
	}
	for _, p := range before {
		if !slices.Contains(after, p) {
			for name, n := range gone {
				p.own(records[name], -n)
			}
		}
	}
	for _, p := range after {
		change := new
		if slices.Contains(before, p) {
			change = net
		}
		for name, n := range change {
			p.own(records[name], n)
		}
	}
	for _, c := range records {
		e.fleet.release(c)
	}
}

// tally counts how often each cluster is in a decision.
func tally(d *decision) map[string]int {
	out := map[string]int{}
	if d != nil {
		for i := range d.object.Status.Decisions {
			out[d.object.Status.Decisions[i].ClusterName]++
		}
	}
	return out
}
