package incremental

import (
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterapi "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

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
