package scheduling

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// Options are how a hub schedules all of its placements.
type Options struct {
	// PreferNoSelect makes a preference of the taint effect of that name, as its
	// documentation promises: a cluster with such a taint that is not tolerated
	// ranks after all without, whatever its score. Upstream gives it no effect.
	PreferNoSelect bool
	// Expressions compiles CEL. Without one every placement makes its own, which
	// takes some time and memory.
	Expressions *Expressions
}

// ScoreGetter looks up the AddOnPlacementScore of a cluster; nil when there is
// none.
type ScoreGetter func(clusterName, resourceName string) *clusterv1alpha1.AddOnPlacementScore

// Problem is what is wrong with a placement.
type Problem struct {
	// Plugin is the filter that found it; "" when none did.
	Plugin string
	// Message says what it is.
	Message string
}

// String is the problem as the condition PlacementMisconfigured tells it.
func (p *Problem) String() string { return p.Plugin + ":" + p.Message }

// Compiled is a placement whose specification has been read: everything that
// does not depend on clusters is done. It may be used by many at once, and holds
// until the placement's specification changes.
type Compiled struct {
	placement *clusterv1beta1.Placement
	options   Options

	predicates   []predicate
	prioritizers []Prioritizer
	groups       []groupSelector

	// What is wrong with the parts; each shows only when it is used.
	predicateProblem, tolerationProblem, prioritizerProblem, groupProblem *Problem
}

// Compile reads a placement. What is wrong with it is not told here but where it
// has an effect: as upstream, a placement without clusters has no bad selector.
// Problems lists it all.
func Compile(p *clusterv1beta1.Placement, o Options) *Compiled {
	if o.Expressions == nil {
		o.Expressions = NewExpressions()
	}
	c := &Compiled{placement: p, options: o}
	c.predicates, c.predicateProblem = compilePredicates(p.Spec.Predicates, o.Expressions)
	c.tolerationProblem = checkTolerations(p.Spec.Tolerations)
	c.prioritizers, c.prioritizerProblem = prioritizersOf(p.Spec.PrioritizerPolicy)
	c.groups, c.groupProblem = compileGroups(p.Spec.DecisionStrategy.GroupStrategy)
	return c
}

// Placement is what was compiled.
func (c *Compiled) Placement() *clusterv1beta1.Placement { return c.placement }

// Problems lists all that is wrong with the placement, in the order in which it
// would come to light.
func (c *Compiled) Problems() []*Problem {
	var out []*Problem
	for _, p := range []*Problem{c.predicateProblem, c.tolerationProblem, c.prioritizerProblem, c.groupProblem} {
		if p != nil {
			out = append(out, p)
		}
	}
	return out
}

// Misconfigured is what comes to light when so many clusters are there to choose
// from, and so many of them satisfy a predicate; nil when nothing does. The
// problem of decision groups is not among it, as it has other effects: see
// GroupProblem.
func (c *Compiled) Misconfigured(available, matching int) *Problem {
	switch {
	case c.predicateProblem != nil && available > 0:
		return c.predicateProblem
	case c.tolerationProblem != nil && matching > 0:
		return c.tolerationProblem
	}
	return c.prioritizerProblem
}

// GroupProblem is what is wrong with the decision groups; no decision is left
// then, not even an empty one.
func (c *Compiled) GroupProblem() *Problem { return c.groupProblem }

// Matches tells whether a cluster satisfies any of the predicates.
func (c *Compiled) Matches(v *View, scores ScoreGetter) bool {
	if len(c.predicates) == 0 {
		return true
	}
	for i := range c.predicates {
		if c.predicates[i].matches(v, scores) {
			return true
		}
	}
	return false
}

// Tolerance is how a placement bears a cluster's taints.
type Tolerance struct {
	// OK is that no taint keeps the cluster out.
	OK bool
	// Avoid is that a taint asks to choose others before the cluster. It is never
	// set without Options.PreferNoSelect.
	Avoid bool
	// Until is when the first of the tolerations that count ends; the answer holds
	// until then. Zero is for ever.
	Until time.Time
}

// Tolerates tells how the placement bears a cluster's taints at a time. selected
// is whether the cluster is in the placement's present decisions.
func (c *Compiled) Tolerates(v *View, selected bool, now time.Time) Tolerance {
	t := Tolerance{OK: true}
	for i := range v.Spec.Taints {
		taint := &v.Spec.Taints[i]
		ok, avoid, until := c.tolerates(taint, selected, now)
		t.OK = t.OK && ok
		t.Avoid = t.Avoid || avoid
		if ok && !until.IsZero() && (t.Until.IsZero() || until.Before(t.Until)) {
			t.Until = until
		}
	}
	return t
}

// Prioritizers are those that the placement's policy turns on.
func (c *Compiled) Prioritizers() []Prioritizer { return c.prioritizers }

// NumberOfClusters is how many clusters the placement takes at most, and whether
// it limits them at all.
func (c *Compiled) NumberOfClusters() (int, bool) {
	if n := c.placement.Spec.NumberOfClusters; n != nil {
		return max(0, int(*n)), true
	}
	return 0, false
}

// clusterSelector matches clusters by labels and claims, both.
type clusterSelector struct{ labels, claims labels.Selector }

func (s clusterSelector) matches(v *View) bool {
	return s.labels.Matches(labels.Set(v.Labels)) && (s.claims.Empty() || s.claims.Matches(v.Claims()))
}

// within is the remaining time until a moment, at least the smallest there is.
func within(until, now time.Time) time.Duration { return max(1, until.Sub(now)) }
