package scheduling

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

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
