package incremental

import (
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterapi "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
)

// source is where a term's key comes from.
type source byte

const (
	label source = iota
	claimed
)

// aspect is what a selector reads of a key.
type aspect byte

const (
	// value is whether the key has one particular value. A missing key counts
	// as a different value.
	value aspect = iota
	// presence is whether the key exists.
	presence
	// anything is any change of the value.
	anything
)

// term is something about a cluster that a selector reads.
type term struct {
	source source
	aspect aspect
	key    string
	value  string
}

// index finds the readers of a term.
type index[T comparable] map[term]sets.Set[T]

func (x index[T]) add(terms []term, who T) {
	for _, t := range terms {
		g := x[t]
		if g == nil {
			g = sets.Set[T]{}
			x[t] = g
		}
		g.Insert(who)
	}
}

func (x index[T]) remove(terms []term, who T) {
	for _, t := range terms {
		delete(x[t], who)
		if len(x[t]) == 0 {
			delete(x, t)
		}
	}
}

// changed calls a function with every reader of something that differs between
// two maps, more than once for readers of several differences.
func (x index[T]) changed(s source, was, is map[string]string, f func(T)) {
	for key, old := range was {
		now, still := is[key]
		if still && now == old {
			continue
		}
		x.read(term{source: s, aspect: value, key: key, value: old}, f)
		x.read(term{source: s, aspect: anything, key: key}, f)
		if still {
			x.read(term{source: s, aspect: value, key: key, value: now}, f)
		} else {
			x.read(term{source: s, aspect: presence, key: key}, f)
		}
	}
	for key, now := range is {
		if _, before := was[key]; before {
			continue
		}
		x.read(term{source: s, aspect: value, key: key, value: now}, f)
		x.read(term{source: s, aspect: presence, key: key}, f)
		x.read(term{source: s, aspect: anything, key: key}, f)
	}
}

func (x index[T]) read(t term, f func(T)) {
	for who := range x[t] {
		f(who)
	}
}

// termsOf are the terms that a selector reads. An invalid selector may have
// any: it selects nothing, whatever the labels are.
func termsOf(s source, selector *metav1.LabelSelector) []term {
	if selector == nil {
		return nil
	}
	var out []term
	for key, v := range selector.MatchLabels {
		out = append(out, term{source: s, aspect: value, key: key, value: v})
	}
	for _, r := range selector.MatchExpressions {
		switch r.Operator {
		case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
			for _, v := range r.Values {
				out = append(out, term{source: s, aspect: value, key: r.Key, value: v})
			}
		default:
			out = append(out, term{source: s, aspect: presence, key: r.Key})
		}
	}
	return out
}

// set is a cluster set with its members.
type set struct {
	object *clusterv1beta2.ManagedClusterSet
	// selector is nil when it is invalid; then there are no members.
	selector labels.Selector
	terms    []term
	members  bitset
	// users are the placements that choose from the set.
	users sets.Set[*placement]
}

// concern reports the users of a set as affected by a cluster that joined or
// left. A cluster that does not satisfy a placement does not affect it, unless
// it is the first or was the last: then the reason for having no clusters
// changes.
func (s *set) concern(c *cluster, came bool, a affected) {
	itself := 0
	if came {
		itself = 1
	}
	for p := range s.users {
		if p.all {
			continue
		}
		alone := s.members.n == itself && p.available() == itself
		if alone || !p.settled(c) || p.matching.has(c.slot) || came && p.canMatch(c) {
			p.touch(c, a)
		}
	}
}

// read stores the selector of the set's object.
func (s *set) read() {
	s.selector, s.terms = nil, nil
	selector, err := membership.Selector(s.object)
	if err != nil {
		return
	}
	s.selector = selector
	if spec := s.object.Spec.ClusterSelector; spec.SelectorType == clusterv1beta2.LabelSelector {
		s.terms = termsOf(label, spec.LabelSelector)
	} else {
		s.terms = []term{{source: label, aspect: value, key: clusterapi.ClusterSetLabel, value: s.object.Name}}
	}
}

// UpsertSet stores a new or changed cluster set, and returns the placements
// whose result may change.
func (e *Engine) UpsertSet(o *clusterv1beta2.ManagedClusterSet) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := affected{}
	s := e.sets[o.Name]
	isNew := s == nil
	if isNew {
		s = &set{users: sets.Set[*placement]{}}
		e.sets[o.Name] = s
	} else if apiequality.Semantic.DeepEqual(s.object.Spec.ClusterSelector, o.Spec.ClusterSelector) {
		s.object = o
		return nil
	}
	e.setTerms.remove(s.terms, s)
	s.object = o
	s.read()
	e.setTerms.add(s.terms, s)
	for _, c := range e.fleet.ordered {
		switch is := c.there() && s.selects(c); {
		case is && !s.members.has(c.slot):
			e.enter(s, c, a)
		case !is && s.members.has(c.slot):
			e.leave(s, c, a)
		}
	}
	if isNew {
		e.rebind(o.Name, a)
	}
	return a.keys()
}

// DeleteSet removes a cluster set, and returns the placements whose result may
// change.
func (e *Engine) DeleteSet(name string) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sets[name]
	if s == nil {
		return nil
	}
	a := affected{}
	e.setTerms.remove(s.terms, s)
	for _, c := range e.fleet.ordered {
		if s.members.has(c.slot) {
			e.leave(s, c, a)
		}
	}
	delete(e.sets, name)
	e.rebind(name, a)
	return a.keys()
}

// rebind makes the placements of the namespaces that a set is bound to resolve
// their sets again.
func (e *Engine) rebind(name string, a affected) {
	for _, n := range e.namespaces {
		if n.bound.Has(name) {
			e.resolveAll(n, a)
		}
	}
}

// UpsertBinding stores the binding of a set to a namespace, and returns the
// placements whose result may change. As upstream, the name of the binding
// counts, not its specification.
func (e *Engine) UpsertBinding(b types.NamespacedName) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.namespace(b.Namespace)
	if n.bound.Has(b.Name) {
		return nil
	}
	a := affected{}
	n.bound.Insert(b.Name)
	e.resolveAll(n, a)
	return a.keys()
}

// DeleteBinding removes a binding, and returns the placements whose result may
// change.
func (e *Engine) DeleteBinding(b types.NamespacedName) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.namespaces[b.Namespace]
	if n == nil || !n.bound.Has(b.Name) {
		return nil
	}
	a := affected{}
	delete(n.bound, b.Name)
	e.resolveAll(n, a)
	e.release(b.Namespace)
	return a.keys()
}

func (e *Engine) resolveAll(n *namespace, a affected) {
	for p := range n.placements {
		if e.resolve(p, n) {
			a.add(p)
		}
	}
}

// resolve computes the sets that a placement chooses from, and reports whether
// they have changed.
func (e *Engine) resolve(p *placement, n *namespace) bool {
	bound := make([]string, 0, len(n.bound))
	for name := range n.bound {
		bound = append(bound, name)
	}
	had := len(p.sets.Bound) > 0
	p.sets.Bound, p.sets.Eligible = membership.Eligible(bound, func(s string) bool { return e.sets[s] != nil }, p.object.Spec.ClusterSets)
	same := had == (len(p.sets.Bound) > 0) && len(p.sets.Eligible) == len(p.eligible)
	for i, name := range p.sets.Eligible {
		same = same && p.eligible[i] == e.sets[name]
	}
	if same {
		return false
	}
	e.detach(p)
	for _, name := range p.sets.Eligible {
		p.eligible = append(p.eligible, e.sets[name])
		e.sets[name].users.Insert(p)
	}
	p.all = true
	return true
}

// detach ends a placement's use of its sets.
func (e *Engine) detach(p *placement) {
	for _, s := range p.eligible {
		delete(s.users, p)
	}
	p.eligible = nil
}

// UpsertScore stores the scores that an add-on publishes about a cluster, whose
// name is the namespace, and returns the placements whose result may change.
func (e *Engine) UpsertScore(o *clusterv1alpha1.AddOnPlacementScore) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.fleet.getOrCreate(o.Namespace)
	was := c.scores[o.Name]
	scores := make(map[string]*clusterv1alpha1.AddOnPlacementScore, len(c.scores)+1)
	maps.Copy(scores, c.scores)
	scores[o.Name] = o
	c.scores = scores
	if was != nil && apiequality.Semantic.DeepEqual(was.Status, o.Status) {
		return nil
	}
	return e.scored(c, o.Name)
}

// DeleteScore removes scores about a cluster, and returns the placements whose
// result may change.
func (e *Engine) DeleteScore(key types.NamespacedName) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.fleet.byName[key.Namespace]
	if c == nil || c.scores[key.Name] == nil {
		return nil
	}
	scores := maps.Clone(c.scores)
	delete(scores, key.Name)
	c.scores = scores
	out := e.scored(c, key.Name)
	e.fleet.release(c)
	return out
}

func (e *Engine) scored(c *cluster, name string) []types.NamespacedName {
	a := affected{}
	for p := range e.scoreReaders[name] {
		if p.sees(c) && p.mayMatch(c) {
			p.touch(c, a)
		}
	}
	c.changes++
	for p := range e.everything {
		if !p.reads.anyScore {
			continue
		}
		p.judgements.drop(c.slot)
		if p.sees(c) {
			p.touch(c, a)
		}
	}
	return a.keys()
}
