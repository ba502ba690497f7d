package scheduling

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// Options are the scheduling options of a hub, for all of its placements.
type Options struct {
	// PreferNoSelect gives the taint effect of this name the meaning that its
	// documentation promises: a cluster with such a taint that is not tolerated
	// ranks after all clusters without one, whatever its score. Upstream
	// ignores the effect.
	PreferNoSelect bool
	// Expressions compiles CEL. Without it, each placement makes its own
	// compiler, which takes time and memory.
	Expressions *Expressions
}

// ScoreGetter looks up the AddOnPlacementScore of a cluster. It returns nil
// when there is none.
type ScoreGetter func(clusterName, resourceName string) *clusterv1alpha1.AddOnPlacementScore

// Problem is a mistake in a placement.
type Problem struct {
	// Plugin is the name of the filter that found it, or "".
	Plugin string
	// Message describes it.
	Message string
}

// String is the problem as the condition PlacementMisconfigured reports it.
func (p *Problem) String() string { return p.Plugin + ":" + p.Message }

// Compiled is a placement after everything that does not depend on clusters has
// been computed. It is safe for concurrent use, and valid until the placement's
// specification changes.
type Compiled struct {
	placement *clusterv1beta1.Placement
	options   Options

	predicates   []predicate
	prioritizers []Prioritizer
	groups       []groupSelector

	// Problems of the parts. Each is reported only when its part is used.
	predicateProblem, tolerationProblem, prioritizerProblem, groupProblem *Problem

	// prepare compiles the expressions, and expressionProblem is their first
	// mistake.
	prepare           sync.Once
	expressionProblem *Problem
}

// Compile reads a placement. A mistake is not reported here but where it has an
// effect: as upstream, a placement without clusters has no bad selector.
// Problems lists all mistakes. Expressions are compiled when they are first
// needed, because that takes a while.
func Compile(p *clusterv1beta1.Placement, o Options) *Compiled {
	if o.Expressions == nil {
		o.Expressions = NewExpressions()
	}
	c := &Compiled{placement: p, options: o}
	c.predicates, c.predicateProblem = compilePredicates(p.Spec.Predicates)
	c.tolerationProblem = checkTolerations(p.Spec.Tolerations)
	c.prioritizers, c.prioritizerProblem = prioritizersOf(p.Spec.PrioritizerPolicy)
	c.groups, c.groupProblem = compileGroups(p.Spec.DecisionStrategy.GroupStrategy)
	return c
}

// Prepare compiles the expressions once. Whatever needs them calls it; a caller
// that must not wait for it later calls it in advance.
func (c *Compiled) Prepare() {
	c.prepare.Do(func() {
		if c.predicateProblem == nil {
			c.expressionProblem = compileExpressions(c.predicates, c.options.Expressions)
		}
	})
}

// unreadable is the first mistake in the predicates.
func (c *Compiled) unreadable() *Problem {
	if c.predicateProblem != nil {
		return c.predicateProblem
	}
	c.Prepare()
	return c.expressionProblem
}

// HasExpressions reports whether any predicate has expressions.
func (c *Compiled) HasExpressions() bool {
	return slices.ContainsFunc(c.predicates, func(p predicate) bool { return len(p.expressions) > 0 })
}

// Length counts the parts of the placement's predicates, groups and
// tolerations: requirements, their values, and tolerations. The time that
// matching takes grows with it.
func (c *Compiled) Length() int {
	n := len(c.placement.Spec.Tolerations)
	add := func(s clusterSelector) {
		for _, selector := range []labels.Selector{s.labels, s.claims} {
			requirements, _ := selector.Requirements()
			for _, r := range requirements {
				n += 1 + len(r.ValuesUnsorted())
			}
		}
	}
	for _, p := range c.predicates {
		n++
		add(p.clusterSelector)
	}
	for _, g := range c.groups {
		n++
		add(g.clusterSelector)
	}
	return n
}

// Unreadable reports whether the predicates are invalid.
func (c *Compiled) Unreadable() bool { return c.unreadable() != nil }

// Intolerant reports whether a toleration contradicts itself.
func (c *Compiled) Intolerant() bool { return c.tolerationProblem != nil }

// Placement is the placement that was compiled.
func (c *Compiled) Placement() *clusterv1beta1.Placement { return c.placement }

// Problems lists all mistakes of the placement in the order in which they would
// be reported.
func (c *Compiled) Problems() []*Problem {
	var out []*Problem
	for _, p := range []*Problem{c.unreadable(), c.tolerationProblem, c.prioritizerProblem, c.groupProblem} {
		if p != nil {
			out = append(out, p)
		}
	}
	return out
}

// Misconfigured is the mistake that is reported when this number of clusters is
// available and this number satisfies a predicate, or nil. Mistakes in decision
// groups are not part of it, because they have other effects: see GroupProblem.
func (c *Compiled) Misconfigured(available, matching int) *Problem {
	if available > 0 {
		if problem := c.unreadable(); problem != nil {
			return problem
		}
	}
	switch {
	case c.tolerationProblem != nil && matching > 0:
		return c.tolerationProblem
	}
	return c.prioritizerProblem
}

// GroupProblem is the mistake in the decision groups. With one there is no
// decision at all, not even an empty one.
func (c *Compiled) GroupProblem() *Problem { return c.groupProblem }

// Verdict is the result of the predicates for a cluster.
type Verdict struct {
	// Matches is whether the cluster satisfies one of them.
	Matches bool
	// Costly is the expression that was given up because of its cost, or "". It
	// counts as false.
	Costly string
	// Cost is the cost of the expressions in CEL's units.
	Cost int64
}

// Judge evaluates the predicates on a cluster. It returns an error, and no
// verdict, only when the context has ended.
func (c *Compiled) Judge(ctx context.Context, v *View, scores ScoreGetter) (Verdict, error) {
	if c.unreadable() != nil || len(c.predicates) == 0 {
		return Verdict{Matches: c.unreadable() == nil}, nil
	}
	var out Verdict
	var x *evaluation // which most placements have no need of
	for i := range c.predicates {
		p := &c.predicates[i]
		if !p.clusterSelector.matches(v) {
			continue
		}
		if len(p.expressions) == 0 {
			out.Matches = true
			return out, nil
		}
		if x == nil {
			x = newEvaluation(v, scores)
		}
		text, holds, err := x.firstFalse(ctx, p)
		out.Cost = x.budget.Spent()
		switch {
		case ctx.Err() != nil:
			return Verdict{}, ctx.Err()
		case holds:
			out.Matches = true
			return out, nil
		case expression.TooCostly(err) && out.Costly == "":
			out.Costly = text
		}
	}
	return out, nil
}

// Matches reports whether a cluster satisfies any of the predicates.
func (c *Compiled) Matches(v *View, scores ScoreGetter) bool {
	verdict, err := c.Judge(context.Background(), v, scores)
	return err == nil && verdict.Matches
}

// Tolerance is the effect of a cluster's taints on a placement.
type Tolerance struct {
	// OK is whether no taint excludes the cluster.
	OK bool
	// Avoid is whether a taint asks to prefer other clusters. It is never set
	// without Options.PreferNoSelect.
	Avoid bool
	// Until is when the first of the tolerations in use expires; the result is
	// valid until then. Zero means forever.
	Until time.Time
}

// Tolerates computes the effect of a cluster's taints on the placement at a
// time. selected is whether the cluster is in the placement's present
// decisions.
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

// Prioritizers are those that the placement's policy enables.
func (c *Compiled) Prioritizers() []Prioritizer { return c.prioritizers }

// NumberOfClusters is the greatest number of clusters that the placement takes,
// and whether there is such a limit.
func (c *Compiled) NumberOfClusters() (int, bool) {
	if n := c.placement.Spec.NumberOfClusters; n != nil {
		return max(0, int(*n)), true
	}
	return 0, false
}

// clusterSelector matches clusters whose labels and claims both match.
type clusterSelector struct{ labels, claims labels.Selector }

func (s clusterSelector) matches(v *View) bool {
	return s.labels.Matches(labels.Set(v.Labels)) && (s.claims.Empty() || s.claims.Matches(v.Claims()))
}

// within is the remaining time until a moment, and at least the smallest
// duration.
func within(until, now time.Time) time.Duration { return max(1, until.Sub(now)) }
