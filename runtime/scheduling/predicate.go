package scheduling

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// predicate is one of a placement's predicates: labels, claims and all
// expressions must match.
type predicate struct {
	clusterSelector
	expressions []celExpression
}

// celExpression is an expression with its text, for explanations. It is
// compiled when it is first needed: see Compiled.Prepare.
type celExpression struct {
	text    string
	program *expression.Program
}

// compilePredicates reads the predicates up to the first invalid one. It does
// not compile their expressions.
func compilePredicates(all []clusterv1beta1.ClusterPredicate) ([]predicate, *Problem) {
	out := make([]predicate, 0, len(all))
	for _, p := range all {
		s := p.RequiredClusterSelector
		selector, err := compileSelector(s.LabelSelector, s.ClaimSelector)
		if err != nil {
			return nil, &Problem{Plugin: predicateFilter, Message: err.Error()}
		}
		compiled := predicate{clusterSelector: selector}
		for _, text := range s.CELSelector.CELExpressions {
			compiled.expressions = append(compiled.expressions, celExpression{text: text})
		}
		out = append(out, compiled)
	}
	return out, nil
}

// compileExpressions compiles the expressions of predicates up to the first
// invalid one.
func compileExpressions(predicates []predicate, expressions *Expressions) *Problem {
	var all []expression.Named
	for i, p := range predicates {
		for j, e := range p.expressions {
			all = append(all, expression.Named{Path: expressionPath(i, j), Text: e.text})
		}
	}
	if err := expression.CheckTexts(all); err != nil {
		return &Problem{Plugin: predicateFilter, Message: err.Error()}
	}
	for i := range predicates {
		for j := range predicates[i].expressions {
			e := &predicates[i].expressions[j]
			var err error
			if e.program, err = expressions.compile(e.text); err != nil {
				message := err.Error()
				if errors.Is(err, expression.ErrLimits) {
					message = fmt.Sprintf("%s: %q: %s", expressionPath(i, j), expression.Excerpt(e.text), message)
				}
				return &Problem{Plugin: predicateFilter, Message: message}
			}
		}
	}
	return nil
}

// expressionPath is the field of a placement that holds an expression.
func expressionPath(predicate, expression int) string {
	return fmt.Sprintf("spec.predicates[%d].requiredClusterSelector.celSelector.celExpressions[%d]", predicate, expression)
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

// evaluation is the evaluation of a placement's expressions on one cluster.
type evaluation struct {
	view      *View
	scores    ScoreGetter
	budget    *expression.Budget
	variables map[string]any
}

func newEvaluation(v *View, scores ScoreGetter) *evaluation {
	return &evaluation{view: v, scores: scores, budget: expression.BudgetOf(ClusterBudget)}
}

// firstFalse evaluates a predicate's expressions in order, up to the first that
// does not hold: one that is false, one that fails on this cluster, or the one
// that exceeds the total cost.
func (x *evaluation) firstFalse(ctx context.Context, p *predicate) (text string, holds bool, err error) {
	if len(p.expressions) == 0 {
		return "", true, nil
	}
	if x.variables == nil {
		value, err := newClusterValue(x.view, x.scores)
		if err != nil {
			return p.expressions[0].text, false, fmt.Errorf("read the cluster %s: %w", x.view.Name, err)
		}
		x.variables = map[string]any{clusterVariable: value}
	}
	for _, e := range p.expressions {
		if ok, err := e.program.True(ctx, x.variables, x.budget); err != nil || !ok {
			return e.text, false, err
		}
	}
	return "", true, nil
}
