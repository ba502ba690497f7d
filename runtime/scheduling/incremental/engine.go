// Package incremental keeps the schedule of a fleet up to date at a cost that
// follows what changed. It is a state without a client: whoever watches the
// fleet tells it of every object that comes, changes or goes, learns which
// placements that concerns, and has those scheduled.
//
// The results are those of the plain algorithm in the package scheduling, which
// decides everything about a single cluster here, too. What this package adds is
// memory: which clusters satisfied which placement when last looked at, who is
// best, and an index from labels, claims, taints, sets and scores to the
// placements that read them.
//
// A placement keeps a list of the clusters that it has to look at anew. Every
// change is entered there at once, and looked at when the placement is next
// scheduled. Whoever is told that a placement is concerned has to have it
// scheduled, then or later. Changes that concern a placement but start no scheduling by
// themselves, as the decisions of others do, are entered all the same, so that
// a scheduling is always right.
package incremental

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// Engine holds a fleet and what its placements choose. It never changes the
// objects that it is given, and they must not be changed while it has them. It
// may be used by many at once.
type Engine struct {
	options scheduling.Options

	mu         sync.Mutex
	fleet      fleet
	sets       map[string]*set
	namespaces map[string]*namespace
	placements map[types.NamespacedName]*placement
	decisions  decisions
	counts     counts

	// Who reads what.
	setTerms       index[*set]
	placementTerms index[*placement]
	scoreReaders   map[string]group[*placement]
	// everything are the placements that are judged apart: those with expressions,
	// which see all of a cluster, and those with long selectors.
	everything group[*placement]
}

// New makes an engine that knows of nothing yet.
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
		decisions:      decisions{byKey: map[types.NamespacedName]*decision{}, byClaim: map[claim]group[*decision]{}},
		setTerms:       index[*set]{},
		placementTerms: index[*placement]{},
		scoreReaders:   map[string]group[*placement]{},
		everything:     group[*placement]{},
	}
}

// namespace is what placements of a namespace share.
type namespace struct {
	// bound are the names of the bindings, which are those of sets.
	bound      group[string]
	placements group[*placement]
	uids       map[types.UID]*placement
}

func (e *Engine) namespace(name string) *namespace {
	n := e.namespaces[name]
	if n == nil {
		n = &namespace{bound: group[string]{}, placements: group[*placement]{}, uids: map[types.UID]*placement{}}
		e.namespaces[name] = n
	}
	return n
}

// release forgets a namespace in which nothing is left.
func (e *Engine) release(name string) {
	if n := e.namespaces[name]; n != nil && len(n.bound)+len(n.placements) == 0 {
		delete(e.namespaces, name)
	}
}

// group is a number of different things.
type group[T comparable] map[T]struct{}

func (g group[T]) add(x T)      { g[x] = struct{}{} }
func (g group[T]) has(x T) bool { _, ok := g[x]; return ok }

// affected gathers placements that a change concerns.
type affected group[*placement]

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

// keyOf names a placement.
func keyOf(p *clusterv1beta1.Placement) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}
