// Package scheduling chooses clusters for placements. It is a pure function
// from a snapshot to a result, without a client, clock or state. The hub's
// placement controller, its debug endpoint and the provider's preview call it.
// It must not import any of them.
//
// Compile reads a placement once; Schedule then decides over a snapshot:
// filters select the clusters that qualify, prioritizers score them, and the
// best are chosen. On request the result explains itself: which filter excluded
// a cluster, which scores it got, and why it was chosen or not.
//
// A caller that keeps results up to date incrementally uses the same Compiled
// for one cluster at a time: see the package incremental.
package scheduling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
)

// Input is a snapshot of everything that a decision depends on.
type Input struct {
	Placement *clusterv1beta1.Placement
	// Sets are the cluster sets that the placement chooses from.
	Sets Sets
	// Clusters are the members of those sets that are not being deleted.
	Clusters []*clusterv1.ManagedCluster
	// Selected are the clusters in the placement's present decisions.
	Selected map[string]bool
	// Elsewhere is, for each cluster, the number of decisions of other
	// placements that it is in.
	Elsewhere map[string]int
	// Score looks up the AddOnPlacementScore of a cluster. It returns nil when
	// there is none.
	Score ScoreGetter
	// Now is the time at which tolerations and scores expire.
	Now time.Time
	// Options are the hub's. Compiled.Schedule uses the options that the
	// placement was compiled with.
	Options Options
	// Explain requests explanations, which take more time than the decision.
	Explain bool
}

// Sets are the cluster sets that a placement chooses from.
type Sets struct {
	// Bound are the existing sets that are bound to the placement's namespace.
	Bound []string
	// Eligible are those of them that the placement names, or all.
	Eligible []string
}

// Result is a decision.
type Result struct {
	// Groups are the chosen clusters by decision group, in the order of groups.
	Groups []Group
	// Selected is how many clusters are chosen.
	Selected int
	// Misconfigured is the mistake in the placement, if one was found.
	Misconfigured *Problem
	// Warning is a problem that does not prevent a choice: scores that have
	// expired.
	Warning *Problem
	// Costly summarises the clusters on which expressions were given up because
	// of their cost.
	Costly Costly
	// Conditions are PlacementMisconfigured and PlacementSatisfied, in this
	// order, which clients rely on. Their times are not set.
	Conditions []metav1.Condition
	// RequeueAfter is how long the result is valid, because a toleration or a
	// score expires then; 0 means forever.
	RequeueAfter time.Duration

	// Filters are the clusters that remain after each step.
	Filters []FilterResult
	// Scores are the scores that each prioritizer gave.
	Scores []PrioritizerResult
	// Total is each candidate's weighted sum.
	Total map[string]int64
	// Explanations say for each cluster why it is chosen or not: the candidates
	// by rank, then the filtered ones by name. They are only set on request.
	Explanations []Explanation
}

// Group is a decision group.
type Group struct {
	// Name is the name from the placement; "" for the clusters that are in no
	// named group.
	Name string
	// Clusters are in the order that the placement's sortBy asks for.
	Clusters []string
}

// FilterResult is what remains after one filter.
type FilterResult struct {
	// Name is the name of the filter, after those of all earlier filters:
	// "Predicate,TaintToleration".
	Name string
	// Clusters are the names of the remaining clusters.
	Clusters []string
}

// PrioritizerResult is the scores of one prioritizer.
type PrioritizerResult struct {
	Name   string
	Weight int32
	Scores map[string]int64
}

// Schedule decides. The same snapshot always gives the same result.
func Schedule(in Input) Result { return Compile(in.Placement, in.Options).Schedule(in) }

// Schedule decides for the compiled placement; the placement in the snapshot is
// ignored.
func (c *Compiled) Schedule(in Input) Result {
	result, _ := c.ScheduleWithin(context.Background(), in)
	return result
}

// ScheduleWithin is Schedule with a context. It returns an error only when the
// context has ended.
func (c *Compiled) ScheduleWithin(ctx context.Context, in Input) (Result, error) {
	var result Result
	candidates, problem, err := c.filter(ctx, in, &result)
	if err != nil {
		return Result{}, err
	}
	if problem == nil {
		problem = c.prioritizerProblem
	}
	var warning *Problem
	var ranked []Ranked
	if problem == nil {
		warning = c.prioritize(in, candidates, &result)
		ranked = make([]Ranked, 0, len(candidates))
		for _, x := range candidates {
			ranked = append(ranked, Ranked{View: x.View, Total: result.Total[x.Name], Avoid: x.avoid})
		}
		slices.SortFunc(ranked, Compare)
	}
	choice := c.Choose(ranked)
	c.Conclude(Outcome{Sets: in.Sets, Available: len(in.Clusters), Chosen: choice.Chosen, Misconfigured: problem, Warning: warning, Costly: result.Costly}, &result)
	if in.Explain {
		result.Explanations = c.explain(ctx, in, ranked, choice, &result)
	}
	return result, ctx.Err()
}

// Outcome is the input of Conclude.
type Outcome struct {
	Sets Sets
	// Available is how many clusters the placement can choose from.
	Available int
	// Chosen are the chosen clusters in order of rank; none when the placement
	// is misconfigured.
	Chosen []Ranked
	// Misconfigured, Warning and Costly are as in the result.
	Misconfigured, Warning *Problem
	Costly                 Costly
}

// Conclude divides the chosen clusters into groups and computes the conditions.
// It does not set the fields of the result that filters and prioritizers fill.
func (c *Compiled) Conclude(o Outcome, result *Result) {
	result.Warning, result.Misconfigured, result.Costly = o.Warning, o.Misconfigured, o.Costly
	result.Selected = len(o.Chosen)
	if c.groupProblem != nil {
		result.Selected = 0
		if o.Misconfigured == nil {
			result.Misconfigured = c.groupProblem
		}
	} else {
		result.Groups = c.divide(o.Chosen)
	}
	result.Conditions = c.conditions(o.Sets, o.Available, result.Selected, result.Misconfigured, o.Costly)
}

// Costly summarises the clusters on which expressions were given up because of
// their cost.
type Costly struct {
	// Clusters is their number.
	Clusters int
	// First is the first of them by name, and Expression the one that was given
	// up there.
	First, Expression string
}

func (c *Costly) add(cluster string, v Verdict) {
	if v.Costly != "" {
		c.Add(cluster, v.Costly)
	}
}

// Add counts a cluster, and the expression that was given up there.
func (c *Costly) Add(cluster, expression string) {
	if c.Clusters == 0 || cluster < c.First {
		c.First, c.Expression = cluster, expression
	}
	c.Clusters++
}

// earliest is the shorter of two durations, where 0 means forever.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Snapshot is all that the hub has and that placements are decided by, at one
// time. It is safe for concurrent use as long as its fields do not change.
type Snapshot struct {
	Clusters  []clusterv1.ManagedCluster                `json:"clusters"`
	Sets      []clusterv1beta2.ManagedClusterSet        `json:"sets"`
	Bindings  []clusterv1beta2.ManagedClusterSetBinding `json:"bindings"`
	Decisions []clusterv1beta1.PlacementDecision        `json:"decisions"`
	Scores    []clusterv1alpha1.AddOnPlacementScore     `json:"scores"`
	// Now is the time of the snapshot.
	Now time.Time `json:"now"`

	indexScores sync.Once
	scores      map[types.NamespacedName]*clusterv1alpha1.AddOnPlacementScore
}

// Lister fills a list with the objects of one namespace, or of all with "".
type Lister func(ctx context.Context, list runtime.Object, namespace string) error

// Take reads the snapshot from the hub: what a compiled placement depends on or,
// without one, what all placements do.
func (s *Snapshot) Take(ctx context.Context, list Lister, c *Compiled, now time.Time) error {
	var (
		clusters  clusterv1.ManagedClusterList
		sets      clusterv1beta2.ManagedClusterSetList
		bindings  clusterv1beta2.ManagedClusterSetBindingList
		decisions clusterv1beta1.PlacementDecisionList
		scores    clusterv1alpha1.AddOnPlacementScoreList
	)
	namespace, bound := "", "cluster set bindings"
	if c != nil {
		namespace = c.placement.Namespace
		bound += " of the namespace " + namespace
	}
	for _, l := range []struct {
		what, namespace string
		list            runtime.Object
		skip            bool
	}{
		{bound, namespace, &bindings, false},
		{"cluster sets", "", &sets, false},
		{"managed clusters", "", &clusters, false},
		{"placement decisions", "", &decisions, false},
		{"add-ons' placement scores", "", &scores, c != nil && !c.readsScores()},
	} {
		if l.skip {
			continue
		}
		if err := list(ctx, l.list, l.namespace); err != nil {
			return fmt.Errorf("list the %s: %w", l.what, err)
		}
	}
	s.Clusters, s.Sets, s.Bindings, s.Decisions, s.Scores, s.Now = clusters.Items, sets.Items, bindings.Items, decisions.Items, scores.Items, now
	return nil
}

// Input is what the snapshot has for the decision of one placement, which need
// not exist.
func (s *Snapshot) Input(p *clusterv1beta1.Placement) Input {
	in := Input{Placement: p, Now: s.Now, Selected: map[string]bool{}, Elsewhere: map[string]int{}, Score: s.score}
	var bound []string
	for i := range s.Bindings {
		if s.Bindings[i].Namespace == p.Namespace {
			bound = append(bound, s.Bindings[i].Name)
		}
	}
	sets := map[string]*clusterv1beta2.ManagedClusterSet{}
	for i := range s.Sets {
		sets[s.Sets[i].Name] = &s.Sets[i]
	}
	in.Sets.Bound, in.Sets.Eligible = membership.Eligible(bound, func(name string) bool { return sets[name] != nil }, p.Spec.ClusterSets)
	var eligible []*clusterv1beta2.ManagedClusterSet
	for _, name := range in.Sets.Eligible {
		eligible = append(eligible, sets[name])
	}
	all := make([]*clusterv1.ManagedCluster, 0, len(s.Clusters))
	for i := range s.Clusters {
		all = append(all, &s.Clusters[i])
	}
	in.Clusters = membership.Clusters(eligible, all)
	for i := range s.Decisions {
		own := Belongs(&s.Decisions[i], p)
		for _, d := range s.Decisions[i].Status.Decisions {
			if own {
				in.Selected[d.ClusterName] = true
			} else {
				in.Elsewhere[d.ClusterName]++
			}
		}
	}
	return in
}

// score looks up a cluster's AddOnPlacementScore; nil when there is none.
func (s *Snapshot) score(clusterName, resourceName string) *clusterv1alpha1.AddOnPlacementScore {
	s.indexScores.Do(func() {
		s.scores = make(map[types.NamespacedName]*clusterv1alpha1.AddOnPlacementScore, len(s.Scores))
		for i := range s.Scores {
			s.scores[types.NamespacedName{Namespace: s.Scores[i].Namespace, Name: s.Scores[i].Name}] = &s.Scores[i]
		}
	})
	return s.scores[types.NamespacedName{Namespace: clusterName, Name: resourceName}]
}

// readsScores reports whether the decision can depend on AddOnPlacementScores. An
// expression reads them with the function of that name.
func (c *Compiled) readsScores() bool {
	return slices.ContainsFunc(c.prioritizers, func(p Prioritizer) bool { return p.Kind == AddOn }) ||
		slices.ContainsFunc(c.predicates, func(p predicate) bool {
			return slices.ContainsFunc(p.expressions, func(e celExpression) bool { return strings.Contains(e.text, "scores") })
		})
}

// Limits on the lists of a placement. Upstream sets none; placements that
// people write are far below these.
const (
	// MaxPredicates is how many predicates there may be.
	MaxPredicates = 100
	// MaxGroups is how many decision groups there may be.
	MaxGroups = 100
	// MaxTolerations is how many tolerations there may be.
	MaxTolerations = 100
	// MaxPrioritizers is how many prioritizers may be configured.
	MaxPrioritizers = 50
	// MaxSpread is how many spread constraints there may be.
	MaxSpread = 8

	// MaxTerms is how many requirements on labels and claims, and values in
	// them, a placement's selectors may have together.
	MaxTerms = 5_000
)

// CheckSize returns an error when a placement is longer than the hub accepts,
// or its expressions exceed their limits. It does not check anything else. A
// nil compiler of expressions means a new one.
func CheckSize(spec *clusterv1beta1.PlacementSpec, expressions *Expressions) error {
	if expressions == nil {
		expressions = NewExpressions()
	}
	for _, list := range []struct {
		path  string
		n, of int
	}{
		{"spec.predicates", len(spec.Predicates), MaxPredicates},
		{"spec.decisionStrategy.groupStrategy.decisionGroups", len(spec.DecisionStrategy.GroupStrategy.DecisionGroups), MaxGroups},
		{"spec.tolerations", len(spec.Tolerations), MaxTolerations},
		{"spec.prioritizerPolicy.configurations", len(spec.PrioritizerPolicy.Configurations), MaxPrioritizers},
		{"spec.spreadPolicy.spreadConstraints", len(spec.SpreadPolicy.SpreadConstraints), MaxSpread},
		{"the selectors of spec.predicates and spec.decisionStrategy", termsOf(spec), MaxTerms},
	} {
		if list.n > list.of {
			return fmt.Errorf("%s: %d entries are more than the %d that a placement may have: shorten the list, or make several placements", list.path, list.n, list.of)
		}
	}
	var named []expression.Named
	for i, p := range spec.Predicates {
		for j, text := range p.RequiredClusterSelector.CELSelector.CELExpressions {
			named = append(named, expression.Named{Path: expressionPath(i, j), Text: text})
		}
	}
	if err := expression.CheckTexts(named); err != nil {
		return err
	}
	for _, e := range named {
		if _, err := expressions.compile(e.Text); errors.Is(err, expression.ErrLimits) {
			return fmt.Errorf("%s: %q: %w", e.Path, expression.Excerpt(e.Text), err)
		}
	}
	return nil
}

// termsOf counts the requirements of a placement's selectors, and their values.
func termsOf(spec *clusterv1beta1.PlacementSpec) int {
	n := 0
	add := func(l metav1.LabelSelector, c clusterv1beta1.ClusterClaimSelector) {
		n += len(l.MatchLabels)
		for _, list := range [][]metav1.LabelSelectorRequirement{l.MatchExpressions, c.MatchExpressions} {
			for _, r := range list {
				n += 1 + len(r.Values)
			}
		}
	}
	for _, p := range spec.Predicates {
		add(p.RequiredClusterSelector.LabelSelector, p.RequiredClusterSelector.ClaimSelector)
	}
	for _, g := range spec.DecisionStrategy.GroupStrategy.DecisionGroups {
		add(g.GroupClusterSelector.LabelSelector, g.GroupClusterSelector.ClaimSelector)
	}
	return n
}

// View is a cluster with what selectors read of it, computed once when first
// needed. It is safe for concurrent use as long as nobody changes the cluster.
type View struct {
	*clusterv1.ManagedCluster

	claimsOnce sync.Once
	claims     labels.Set

	objectMu sync.Mutex
	object   weak.Pointer[map[string]any]
}

// NewView makes the view of a cluster.
func NewView(c *clusterv1.ManagedCluster) *View { return &View{ManagedCluster: c} }

// Claims are the values of the cluster's claims by their names.
func (v *View) Claims() labels.Set {
	v.claimsOnce.Do(func() {
		v.claims = make(labels.Set, len(v.Status.ClusterClaims))
		for _, c := range v.Status.ClusterClaims {
			v.claims[c.Name] = c.Value
		}
	})
	return v.claims
}

// asObject is the cluster as expressions see it: as its JSON. That is large and
// slow to make, so all expressions that are evaluated on the cluster share it
// until it is garbage.
func (v *View) asObject() (map[string]any, error) {
	v.objectMu.Lock()
	defer v.objectMu.Unlock()
	if o := v.object.Value(); o != nil {
		return *o, nil
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v.ManagedCluster)
	if err != nil {
		return nil, err
	}
	v.object = weak.Make(&object)
	return object, nil
}

// views makes the views of clusters, in their order.
func views(clusters []*clusterv1.ManagedCluster) []*View {
	all := make([]View, len(clusters))
	out := make([]*View, len(clusters))
	for i, c := range clusters {
		all[i].ManagedCluster = c
		out[i] = &all[i]
	}
	return out
}
