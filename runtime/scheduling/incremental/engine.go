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
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

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
