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

	// prepare compiles the expressions, and expressionProblem is what is wrong with
	// them.
	prepare           sync.Once
	expressionProblem *Problem
}

// Compile reads a placement. What is wrong with it is not told here but where it
// has an effect: as upstream, a placement without clusters has no bad selector.
// Problems lists it all. Expressions are compiled when they are first needed, as
// that takes a while.
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

// Prepare compiles the expressions, unless that has been done. It is done by
// whatever needs them; who must not wait for it has it done before.
func (c *Compiled) Prepare() {
	c.prepare.Do(func() {
		if c.predicateProblem == nil {
			c.expressionProblem = compileExpressions(c.predicates, c.options.Expressions)
		}
	})
}

// unreadable is what is wrong with the predicates.
func (c *Compiled) unreadable() *Problem {
	if c.predicateProblem != nil {
		return c.predicateProblem
	}
	c.Prepare()
	return c.expressionProblem
}

// HasExpressions tells whether any predicate has expressions.
func (c *Compiled) HasExpressions() bool {
	return slices.ContainsFunc(c.predicates, func(p predicate) bool { return len(p.expressions) > 0 })
}

// Length counts what the placement's predicates, groups and tolerations are made
// of: requirements, their values, and tolerations. Matching takes time that grows
// with it.
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

// Unreadable tells whether the predicates cannot be read.
func (c *Compiled) Unreadable() bool { return c.unreadable() != nil }

// Intolerant tells whether the tolerations contradict themselves.
func (c *Compiled) Intolerant() bool { return c.tolerationProblem != nil }

// Placement is what was compiled.
func (c *Compiled) Placement() *clusterv1beta1.Placement { return c.placement }

// Problems lists all that is wrong with the placement, in the order in which it
// would come to light.
func (c *Compiled) Problems() []*Problem {
	var out []*Problem
	for _, p := range []*Problem{c.unreadable(), c.tolerationProblem, c.prioritizerProblem, c.groupProblem} {
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

// GroupProblem is what is wrong with the decision groups; no decision is left
// then, not even an empty one.
func (c *Compiled) GroupProblem() *Problem { return c.groupProblem }

// Verdict is what the predicates say about a cluster.
type Verdict struct {
	// Matches is that the cluster satisfies one of them.
	Matches bool
	// Costly is the expression that was given up because of what it cost; "" when
	// none was. It counts as one that does not hold.
	Costly string
	// Cost is what the expressions have cost, in CEL's units.
	Cost int64
}

// Judge tells what the predicates say about a cluster. Its error is that the
// context has ended; there is no verdict then.
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

// Matches tells whether a cluster satisfies any of the predicates.
func (c *Compiled) Matches(v *View, scores ScoreGetter) bool {
	verdict, err := c.Judge(context.Background(), v, scores)
	return err == nil && verdict.Matches
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
