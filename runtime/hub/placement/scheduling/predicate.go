package scheduling

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// predicate is one of a placement's predicates: labels, claims and all
// expressions have to hold.
type predicate struct {
	clusterSelector
	expressions []celExpression
}

// celExpression is an expression with its text, for explanations.
type celExpression struct {
	text    string
	program *expression.Program
}

// compilePredicates reads the predicates, up to the first that cannot be read.
func compilePredicates(all []clusterv1beta1.ClusterPredicate, expressions *Expressions) ([]predicate, *Problem) {
	out := make([]predicate, 0, len(all))
	for _, p := range all {
		s := p.RequiredClusterSelector
		selector, err := compileSelector(s.LabelSelector, s.ClaimSelector)
		if err != nil {
			return nil, &Problem{Plugin: predicateFilter, Message: err.Error()}
		}
		compiled := predicate{clusterSelector: selector}
		for _, text := range s.CELSelector.CELExpressions {
			program, err := expressions.compile(text)
			if err != nil {
				return nil, &Problem{Plugin: predicateFilter, Message: err.Error()}
			}
			compiled.expressions = append(compiled.expressions, celExpression{text, program})
		}
		out = append(out, compiled)
	}
	return out, nil
}

// compileSelector reads a selector by labels and claims.
func compileSelector(label metav1.LabelSelector, claim clusterv1beta1.ClusterClaimSelector) (clusterSelector, error) {
	l, err := metav1.LabelSelectorAsSelector(&label)
	if err != nil {
		return clusterSelector{}, err
	}
	c, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: claim.MatchExpressions})
	return clusterSelector{l, c}, err
}

func (p *predicate) matches(v *View, scores ScoreGetter) bool {
	if !p.clusterSelector.matches(v) {
		return false
	}
	_, holds, _ := p.firstFalse(v, scores)
	return holds
}

// firstFalse evaluates the expressions in their order, up to the first that does
// not hold: a false one, one that fails on this cluster, or the one with which
// all of them have cost too much together.
func (p *predicate) firstFalse(v *View, scores ScoreGetter) (text string, holds bool, err error) {
	if len(p.expressions) == 0 {
		return "", true, nil
	}
	value, err := newClusterValue(v, scores)
	if err != nil {
		return p.expressions[0].text, false, fmt.Errorf("read the cluster %s: %w", v.Name, err)
	}
	budget := expression.NewBudget()
	variables := map[string]any{clusterVariable: value}
	for _, e := range p.expressions {
		if ok, err := e.program.True(context.Background(), variables, budget); err != nil || !ok {
			return e.text, false, err
		}
	}
	return "", true, nil
}
