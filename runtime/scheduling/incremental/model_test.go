package incremental_test

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// model is a hub as the API server would show it, without any memory: what the
// engine's answers are compared with.
type model struct {
	options    scheduling.Options
	now        time.Time
	clusters   map[string]*clusterv1.ManagedCluster
	sets       map[string]*clusterv1beta2.ManagedClusterSet
	bindings   map[types.NamespacedName]bool
	placements map[types.NamespacedName]*clusterv1beta1.Placement
	decisions  map[types.NamespacedName]*clusterv1beta1.PlacementDecision
	scores     map[types.NamespacedName]*clusterv1alpha1.AddOnPlacementScore
	// compiled spares the tests the compilation of expressions, and tallied, which
	// is nil when decisions have changed, the same sums over and over.
	compiled map[*clusterv1beta1.Placement]*scheduling.Compiled
	tallied  *tally
}

// tally sums up all decisions.
type tally struct {
	// counts says in how many decisions each cluster is.
	counts      map[string]int
	byNamespace map[string][]*clusterv1beta1.PlacementDecision
}

func (m *model) tally() *tally {
	if m.tallied == nil {
		m.tallied = &tally{counts: map[string]int{}, byNamespace: map[string][]*clusterv1beta1.PlacementDecision{}}
		for _, d := range m.decisions {
			m.tallied.byNamespace[d.Namespace] = append(m.tallied.byNamespace[d.Namespace], d)
			for _, x := range d.Status.Decisions {
				m.tallied.counts[x.ClusterName]++
			}
		}
	}
	return m.tallied
}

// write puts a decision in, and erase takes it out.
func (m *model) write(d *clusterv1beta1.PlacementDecision) {
	m.decisions[keyOf(d)] = d
	m.tallied = nil
}

func (m *model) erase(key types.NamespacedName) {
	delete(m.decisions, key)
	m.tallied = nil
}

func newModel() *model {
	return &model{
		options:    scheduling.Options{Expressions: scheduling.NewExpressions()},
		now:        time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
		clusters:   map[string]*clusterv1.ManagedCluster{},
		sets:       map[string]*clusterv1beta2.ManagedClusterSet{},
		bindings:   map[types.NamespacedName]bool{},
		placements: map[types.NamespacedName]*clusterv1beta1.Placement{},
		decisions:  map[types.NamespacedName]*clusterv1beta1.PlacementDecision{},
		scores:     map[types.NamespacedName]*clusterv1alpha1.AddOnPlacementScore{},
		compiled:   map[*clusterv1beta1.Placement]*scheduling.Compiled{},
	}
}

// schedule has the plain algorithm decide.
func (m *model) schedule(p *clusterv1beta1.Placement) scheduling.Result {
	return m.decideOn(m.input(p))
}

func (m *model) decideOn(in scheduling.Input) scheduling.Result {
	c := m.compiled[in.Placement]
	if c == nil {
		c = scheduling.Compile(in.Placement, m.options)
		m.compiled[in.Placement] = c
	}
	return c.Schedule(in)
}

// input gathers all that a placement's decision depends on.
func (m *model) input(p *clusterv1beta1.Placement) scheduling.Input {
	in := scheduling.Input{Placement: p, Now: m.now, Options: m.options, Selected: map[string]bool{}, Elsewhere: map[string]int{}}
	var bound []string
	for b := range m.bindings {
		if b.Namespace == p.Namespace {
			bound = append(bound, b.Name)
		}
	}
	in.Sets.Bound, in.Sets.Eligible = membership.Eligible(bound, func(s string) bool { return m.sets[s] != nil }, p.Spec.ClusterSets)
	var eligible []*clusterv1beta2.ManagedClusterSet
	for _, name := range in.Sets.Eligible {
		eligible = append(eligible, m.sets[name])
	}
	in.Clusters = membership.Clusters(eligible, m.inOrder())
	maps.Copy(in.Elsewhere, m.tally().counts)
	for _, d := range m.present(p) {
		for _, x := range d.Status.Decisions {
			in.Selected[x.ClusterName] = true
			in.Elsewhere[x.ClusterName]--
		}
	}
	in.Score = func(clusterName, resourceName string) *clusterv1alpha1.AddOnPlacementScore {
		return m.scores[types.NamespacedName{Namespace: clusterName, Name: resourceName}]
	}
	return in
}

// present are the decisions of a placement, by name.
func (m *model) present(p *clusterv1beta1.Placement) []*clusterv1beta1.PlacementDecision {
	var out []*clusterv1beta1.PlacementDecision
	for _, d := range m.tally().byNamespace[p.Namespace] {
		if belongs(d, p) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *clusterv1beta1.PlacementDecision) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// belongs reports whether a decision is a placement's, by its label, its owner
// or its name.
func belongs(d *clusterv1beta1.PlacementDecision, p *clusterv1beta1.Placement) bool {
	if d.Namespace != p.Namespace {
		return false
	}
	if d.Labels[cluster.PlacementLabel] == p.Name || metav1.IsControlledBy(d, p) {
		return true
	}
	number, ok := strings.CutPrefix(d.Name, p.Name+"-decision-")
	if !ok {
		return false
	}
	_, err := strconv.ParseUint(number, 10, 32)
	return err == nil
}

// inOrder are the clusters by name.
func (m *model) inOrder() []*clusterv1.ManagedCluster {
	var out []*clusterv1.ManagedCluster
	for _, name := range slices.Sorted(maps.Keys(m.clusters)) {
		out = append(out, m.clusters[name])
	}
	return out
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
