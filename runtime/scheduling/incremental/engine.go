// Package incremental keeps the schedule of a fleet up to date at a cost that
// depends on what changed. It has no client: its caller watches the fleet,
// passes in every created, changed or deleted object, gets back the affected
// placements, and schedules those.
//
// The results are the same as from the plain algorithm in the package
// scheduling, which also decides everything about a single cluster here. This
// package adds memory: which clusters satisfied which placement at the last
// look, the ranking, and an index from labels, claims, taints, sets and scores
// to the placements that read them. It must not import a client, the hub, the
// agent or the provider.
//
// A placement keeps a list of the clusters to evaluate again. Every change is
// added to it at once, and evaluated when the placement is next scheduled. The
// caller schedules an affected placement immediately or later. Changes that
// affect a placement but do not trigger its scheduling, such as decisions of
// others, are added as well, so a scheduling is always right.
package incremental

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// Engine holds a fleet and the results of its placements. It never changes the
// objects that it is given, and callers must not change them either. It is safe
// for concurrent use.
type Engine struct {
	options scheduling.Options

	mu         sync.Mutex
	fleet      fleet
	sets       map[string]*set
	namespaces map[string]*namespace
	placements map[types.NamespacedName]*placement
	decisions  decisions
	counts     counts

	// The indexes: which placements read what.
	setTerms       index[*set]
	placementTerms index[*placement]
	scoreReaders   map[string]sets.Set[*placement]
	// everything are the placements that are judged separately: those with
	// expressions, which see the whole cluster, and those with long selectors.
	everything sets.Set[*placement]
}

// New makes an empty engine.
func New(o scheduling.Options) *Engine {
	if o.Expressions == nil {
		o.Expressions = scheduling.NewExpressions()
	}
	return &Engine{
		options:        o,
		fleet:          fleet{byName: map[string]*cluster{}},
		sets:           map[string]*set{},
		namespaces:     map[string]*namespace{},
		placements:     map[types.NamespacedName]*placement{},
		decisions:      decisions{byKey: map[types.NamespacedName]*decision{}, byClaim: map[claim]sets.Set[*decision]{}},
		setTerms:       index[*set]{},
		placementTerms: index[*placement]{},
		scoreReaders:   map[string]sets.Set[*placement]{},
		everything:     sets.Set[*placement]{},
	}
}

// namespace is what placements of a namespace share.
type namespace struct {
	// bound are the names of the bindings, which are those of sets.
	bound      sets.Set[string]
	placements sets.Set[*placement]
	uids       map[types.UID]*placement
}

func (e *Engine) namespace(name string) *namespace {
	n := e.namespaces[name]
	if n == nil {
		n = &namespace{bound: sets.Set[string]{}, placements: sets.Set[*placement]{}, uids: map[types.UID]*placement{}}
		e.namespaces[name] = n
	}
	return n
}

// release removes an empty namespace.
func (e *Engine) release(name string) {
	if n := e.namespaces[name]; n != nil && len(n.bound)+len(n.placements) == 0 {
		delete(e.namespaces, name)
	}
}

// affected collects the placements that a change affects.
type affected sets.Set[*placement]

func (a affected) add(p *placement) { a[p] = struct{}{} }

// keys are the names of the placements, sorted.
func (a affected) keys() []types.NamespacedName {
	if len(a) == 0 {
		return nil
	}
	out := make([]types.NamespacedName, 0, len(a))
	for p := range a {
		out = append(out, p.key)
	}
	slices.SortFunc(out, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// keyOf is the name of a placement.
func keyOf(p *clusterv1beta1.Placement) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// cluster is everything that is known under a cluster's name. Its object may be
// missing when only a decision or a score names it.
type cluster struct {
	name string
	// slot is the cluster's number as long as anything is known of it.
	slot uint32
	// view is the cluster itself, or nil when there is none.
	view *scheduling.View
	// sets are the sets that it belongs to; none when it is being deleted.
	sets []*set
	// free is the free share of each resource that placements rank by; NaN when
	// the cluster does not report it.
	free [resources]float64
	// decisions is the number of decisions that it is in.
	decisions int
	// scores are the AddOnPlacementScores of it by name, or nil. The map is
	// never changed, only replaced, because a judgement may be reading it.
	scores map[string]*clusterv1alpha1.AddOnPlacementScore
	// changes counts the changes that expressions may see.
	changes uint64
}

// The resources that placements can rank by.
const (
	cpu = iota
	memory
	resources
)

// resourceOf is the number of a resource.
func resourceOf(name clusterv1.ResourceName) int {
	if name == clusterv1.ResourceCPU {
		return cpu
	}
	return memory
}

// freeOf reads the free shares of a cluster's resources.
func freeOf(o *clusterv1.ManagedCluster) (out [resources]float64) {
	for i, name := range []clusterv1.ResourceName{cpu: clusterv1.ResourceCPU, memory: clusterv1.ResourceMemory} {
		var ok bool
		if out[i], ok = scheduling.Free(o, name); !ok {
			out[i] = math.NaN()
		}
	}
	return out
}

// sameFree reports whether two lists of free shares are equal, where NaN equals
// NaN.
func sameFree(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// there reports whether the cluster can be chosen: it exists and is not being
// deleted.
func (c *cluster) there() bool { return c.view != nil && c.view.DeletionTimestamp.IsZero() }

// fleet numbers the clusters, so that sets of them are bits.
type fleet struct {
	byName map[string]*cluster
	slots  []*cluster
	unused []uint32
	// ordered are the existing clusters by name.
	ordered []*cluster
}

// getOrCreate returns the entry of a name, and creates it when there is none.
func (f *fleet) getOrCreate(name string) *cluster {
	if c := f.byName[name]; c != nil {
		return c
	}
	c := &cluster{name: name}
	if n := len(f.unused); n > 0 {
		c.slot, f.unused = f.unused[n-1], f.unused[:n-1]
		f.slots[c.slot] = c
	} else {
		c.slot = uint32(len(f.slots))
		f.slots = append(f.slots, c)
	}
	f.byName[name] = c
	return c
}

// release removes a cluster that nothing is known of any more. Its slot is
// reused; entries that placements still have for it are on their lists of what
// to evaluate again.
func (f *fleet) release(c *cluster) {
	if c.view != nil || c.decisions > 0 || len(c.scores) > 0 {
		return
	}
	delete(f.byName, c.name)
	f.slots[c.slot] = nil
	f.unused = append(f.unused, c.slot)
}

func byName(c *cluster, name string) int { return strings.Compare(c.name, name) }

// insert adds a cluster to the ordered ones.
func (f *fleet) insert(c *cluster) {
	if n := len(f.ordered); n == 0 || f.ordered[n-1].name < c.name {
		f.ordered = append(f.ordered, c)
		return
	}
	at, _ := slices.BinarySearchFunc(f.ordered, c.name, byName)
	f.ordered = slices.Insert(f.ordered, at, c)
}

// remove removes a cluster from the ordered ones.
func (f *fleet) remove(c *cluster) {
	if at, ok := slices.BinarySearchFunc(f.ordered, c.name, byName); ok {
		f.ordered = slices.Delete(f.ordered, at, at+1)
	}
}

// sortRatio is how many times more clusters than marked ones there have to be
// for sorting the marked ones to be cheaper.
const sortRatio = 16

// inOrder returns the marked clusters by name.
func (f *fleet) inOrder(marked *bitset) []*cluster {
	out := make([]*cluster, 0, marked.n)
	if marked.n*sortRatio < len(f.ordered) {
		marked.each(func(slot uint32) {
			if c := f.slots[slot]; c != nil {
				out = append(out, c)
			}
		})
		slices.SortFunc(out, func(a, b *cluster) int { return strings.Compare(a.name, b.name) })
		return out
	}
	for _, c := range f.ordered {
		if marked.has(c.slot) {
			out = append(out, c)
		}
	}
	return out
}

// UpsertCluster stores a new or changed cluster, and returns the placements
// whose result may change. What agents report every minute affects none.
func (e *Engine) UpsertCluster(o *clusterv1.ManagedCluster) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := affected{}
	c := e.fleet.getOrCreate(o.Name)
	was, wasThere, had := c.view, c.there(), c.free
	c.view, c.free = scheduling.NewView(o), freeOf(o)
	if was == nil {
		e.fleet.insert(c)
	}
	if was == nil || was.ManagedCluster != o && len(e.everything) > 0 && !sameVersion(was.ManagedCluster, o) {
		e.misjudged(c)
	}
	if was == nil || wasThere != c.there() || !maps.Equal(was.Labels, o.Labels) {
		if !wasThere {
			was = nil
		}
		e.join(c, was, a)
	}
	if wasThere && c.there() && was.ManagedCluster != o {
		e.compare(c, was, had, a)
	}
	return a.keys()
}

// DeleteCluster removes a cluster, and returns the placements whose result may
// change.
func (e *Engine) DeleteCluster(name string) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.fleet.byName[name]
	if c == nil || c.view == nil {
		return nil
	}
	a := affected{}
	e.fleet.remove(c)
	c.view = nil
	e.misjudged(c)
	e.join(c, nil, a)
	e.fleet.release(c)
	return a.keys()
}

// join adds a cluster to the sets that select it, and removes it from the
// others. was is the previous state of the cluster, if it could be chosen then.
func (e *Engine) join(c *cluster, was *scheduling.View, a affected) {
	for _, s := range slices.Clone(c.sets) {
		if !c.there() || !s.selects(c) {
			e.leave(s, c, a)
		}
	}
	if !c.there() {
		return
	}
	enter := func(s *set) {
		if !s.members.has(c.slot) && s.selects(c) {
			e.enter(s, c, a)
		}
	}
	if was != nil {
		e.setTerms.changed(label, was.Labels, c.view.Labels, enter)
		return
	}
	for _, s := range e.sets {
		enter(s)
	}
}

// enter makes a cluster a member of a set.
func (e *Engine) enter(s *set, c *cluster, a affected) {
	s.members.set(c.slot, true)
	c.sets = append(c.sets, s)
	s.concern(c, true, a)
}

// leave ends the membership.
func (e *Engine) leave(s *set, c *cluster, a affected) {
	s.members.set(c.slot, false)
	c.sets = slices.DeleteFunc(c.sets, func(x *set) bool { return x == s })
	s.concern(c, false, a)
}

// compare finds the placements that read something that has changed in a
// cluster.
func (e *Engine) compare(c *cluster, was *scheduling.View, had [resources]float64, a affected) {
	selectors := func(p *placement) {
		if p.sees(c) && p.selectsDifferently(c) {
			p.touch(c, a)
		}
	}
	if !maps.Equal(was.Labels, c.view.Labels) {
		e.placementTerms.changed(label, was.Labels, c.view.Labels, selectors)
	}
	if !slices.Equal(was.Status.ClusterClaims, c.view.Status.ClusterClaims) {
		e.placementTerms.changed(claimed, was.Claims(), c.view.Claims(), selectors)
	}
	if len(e.everything) > 0 && !sameVersion(was.ManagedCluster, c.view.ManagedCluster) {
		for p := range e.everything {
			if p.sees(c) {
				p.touch(c, a)
			}
		}
	}
	tainted := !slices.EqualFunc(was.Spec.Taints, c.view.Spec.Taints, sameTaint)
	var freed [resources]bool
	for r := range freed {
		freed[r] = !sameFree(had[r], c.free[r])
	}
	if !tainted && freed == [resources]bool{} {
		return
	}
	for _, s := range c.sets {
		for p := range s.users {
			if p.mayMatch(c) && (tainted || p.ranksBy(freed)) {
				p.touch(c, a)
			}
		}
	}
}

// sameVersion reports whether two objects look the same to an expression.
func sameVersion(a, b *clusterv1.ManagedCluster) bool {
	if a.ResourceVersion != b.ResourceVersion {
		return false
	}
	return a.ResourceVersion != "" || apiequality.Semantic.DeepEqual(a, b)
}

func sameTaint(a, b clusterv1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect && a.TimeAdded.Equal(b.TimeAdded)
}

// selects reports whether a set's selector selects a cluster.
func (s *set) selects(c *cluster) bool {
	return s.selector != nil && s.selector.Matches(labels.Set(c.view.Labels))
}

// counts holds in how many decisions the clusters are, for the prioritizer
// Balance.
type counts struct {
	// levels[n] is the number of clusters in n decisions; the last one is not
	// 0.
	levels []int
	// log is the slots of the clusters whose counts have changed recently, the
	// latest last, so that a placement need not look at the others. The number
	// of the first one is since.
	log   []uint32
	since uint64
	// spare is reusable memory.
	spare []int
}

// remembered is how many changes of counts the log holds at least. A placement
// that missed more ranks all of its clusters again.
const remembered = 2048

// change adds to the count of a cluster.
func (k *counts) change(c *cluster, by int) {
	if c.decisions > 0 {
		k.levels[c.decisions]--
	}
	c.decisions += by
	for len(k.levels) <= c.decisions {
		k.levels = append(k.levels, 0)
	}
	if c.decisions > 0 {
		k.levels[c.decisions]++
	}
	for n := len(k.levels); n > 0 && k.levels[n-1] == 0; n = len(k.levels) {
		k.levels = k.levels[:n-1]
	}
	if len(k.log) == 2*remembered {
		k.since += remembered
		copy(k.log, k.log[remembered:])
		k.log = k.log[:remembered]
	}
	k.log = append(k.log, c.slot)
}

// now is the number of the next change.
func (k *counts) now() uint64 { return k.since + uint64(len(k.log)) }

// after returns the slots whose counts have changed since a change with this
// number, possibly several times; false means that the log no longer reaches
// that far.
func (k *counts) after(seen uint64) ([]uint32, bool) {
	if seen < k.since {
		return nil, false
	}
	return k.log[seen-k.since:], true
}

// most is the highest count of decisions of other placements that any cluster
// is in.
func (k *counts) most(f *fleet, p *placement) int {
	top := max(0, len(k.levels)-1)
	if p.selected.n == 0 {
		return top
	}
	k.spare = append(k.spare[:0], k.levels...)
	p.selected.each(func(slot uint32) {
		c := f.slots[slot]
		k.spare[c.decisions]--
		k.spare[p.elsewhere(c)]++
	})
	for top > 0 && k.spare[top] == 0 {
		top--
	}
	return top
}

// bitset is a set of clusters by their slots, with their number.
type bitset struct {
	words []uint64
	n     int
}

func (b *bitset) has(slot uint32) bool {
	word := int(slot / 64)
	return word < len(b.words) && b.words[word]&(1<<(slot%64)) != 0
}

// set adds or removes a slot.
func (b *bitset) set(slot uint32, mark bool) {
	if b.has(slot) == mark {
		return
	}
	word := int(slot / 64)
	for word >= len(b.words) {
		b.words = append(b.words, 0)
	}
	b.words[word] ^= 1 << (slot % 64)
	if mark {
		b.n++
	} else {
		b.n--
	}
}

// each calls a function with every slot in the set.
func (b *bitset) each(f func(slot uint32)) {
	for i, w := range b.words {
		for ; w != 0; w &= w - 1 {
			f(uint32(i*64 + bits.TrailingZeros64(w)))
		}
	}
}

// clear removes all slots and keeps the memory for new ones.
func (b *bitset) clear() {
	clear(b.words)
	b.n = 0
}

// add adds all slots of another set.
func (b *bitset) add(o *bitset) {
	for len(b.words) < len(o.words) {
		b.words = append(b.words, 0)
	}
	b.n = 0
	for i := range b.words {
		if i < len(o.words) {
			b.words[i] |= o.words[i]
		}
		b.n += bits.OnesCount64(b.words[i])
	}
}

// without calls a function with the slots that are in this set and not in
// another one, until it returns false, and reports whether there were any.
func (b *bitset) without(o *bitset, f func(slot uint32) bool) bool {
	found := false
	for i, w := range b.words {
		if i < len(o.words) {
			w &^= o.words[i]
		}
		for ; w != 0; w &= w - 1 {
			found = true
			if !f(uint32(i*64 + bits.TrailingZeros64(w))) {
				return true
			}
		}
	}
	return found
}
