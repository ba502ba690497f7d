package report

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// rules evaluates the condition rules of manifests.
type rules struct {
	conditions, messages *expression.Env
}

func newRules() (*rules, error) {
	conditions, err := expression.ForConditions()
	if err != nil {
		return nil, err
	}
	messages, err := expression.ForMessages()
	return &rules{conditions, messages}, err
}

// evaluate returns the conditions that the rules yield for an object, without
// times and generations. A rule for a kind about which nothing is known yields
// none.
func (r *rules) evaluate(
	ctx context.Context, list []workv1.ConditionRule, object *unstructured.Unstructured, budget *expression.Budget,
) []metav1.Condition {
	var out []metav1.Condition
	for i, rule := range list {
		if i == workcheck.MaxRules {
			break // the hub refuses more
		}
		switch rule.Type {
		case workv1.ConditionRuleTypeCEL:
			out = append(out, r.byExpression(ctx, rule, object, budget))
		case workv1.ConditionRuleTypeWellKnownConditions:
			if holds, message, ok := wellKnownCondition(rule.Condition, object); ok {
				out = append(out, metav1.Condition{
					Type: rule.Condition, Status: truth(holds), Reason: work.ReasonRuleEvaluated,
					Message: r.message(ctx, rule, object, holds, message, budget),
				})
			}
		default:
			out = append(out, metav1.Condition{
				Type: rule.Condition, Status: metav1.ConditionUnknown, Reason: work.ReasonRuleInvalid,
				Message: fmt.Sprintf("the rule's type is %q: use CEL or WellKnownConditions", rule.Type),
			})
		}
	}
	return out
}

func (r *rules) byExpression(
	ctx context.Context, rule workv1.ConditionRule, object *unstructured.Unstructured, budget *expression.Budget,
) metav1.Condition {
	c := metav1.Condition{Type: rule.Condition, Status: metav1.ConditionTrue, Reason: work.ReasonRuleEvaluated}
	for i, expr := range rule.CELExpressions {
		if i == workcheck.MaxExpressions {
			c.Status, c.Reason = metav1.ConditionUnknown, work.ReasonRuleInvalid
			c.Message = fmt.Sprintf("the rule has more than %d expressions: join them with &&", i)
			return c
		}
		holds, err := r.conditions.True(ctx, expr, map[string]any{"object": object.Object}, budget)
		switch {
		case errors.Is(err, context.Canceled):
			c.Status, c.Reason, c.Message = metav1.ConditionUnknown, work.ReasonRuleInternalError, err.Error()
			return c
		case err != nil:
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, work.ReasonRuleExpressionError, problem(expr, err)
			return c
		}
		if !holds {
			c.Status = metav1.ConditionFalse
			break
		}
	}
	builtIn := "Manifest is " + rule.Condition
	if c.Status == metav1.ConditionFalse {
		builtIn = "Manifest is not " + rule.Condition
	}
	c.Message = r.message(ctx, rule, object, c.Status == metav1.ConditionTrue, builtIn, budget)
	return c
}

// message is what the rule says about its result: by its expression, or as it
// stands in the rule, or by default.
func (r *rules) message(
	ctx context.Context, rule workv1.ConditionRule, object *unstructured.Unstructured, result bool, byDefault string,
	budget *expression.Budget,
) string {
	if rule.MessageExpression != "" {
		of := map[string]any{"object": object.Object, "result": result}
		message, err := r.messages.Text(ctx, rule.MessageExpression, of, budget)
		switch {
		case err == nil:
			return text.Cut(message, limits.ConditionMessage)
		case rule.Message == "":
			return problem(rule.MessageExpression, err)
		}
	}
	if rule.Message != "" {
		return rule.Message
	}
	return byDefault
}

// problem is what is wrong with an expression, which is named where it costs too
// much: a rule may have several.
func problem(expr string, err error) string {
	if expression.TooCostly(err) {
		return fmt.Sprintf("%q: %s", expression.Excerpt(expr), err)
	}
	return err.Error()
}

func truth(b bool) metav1.ConditionStatus {
	if b {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// wellKnownCondition reports whether a condition holds of an object of a kind
// that is known for it, and in which words. ok is false for others.
func wellKnownCondition(condition string, object *unstructured.Unstructured) (holds bool, message string, ok bool) {
	if condition != work.ConditionComplete {
		return false, "", false
	}
	switch object.GroupVersionKind() {
	case schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}:
		if isTrue(object, "Complete") || isTrue(object, "Failed") {
			return true, "Job is finished", true
		}
		return false, "Job is not finished", true
	case schema.GroupVersionKind{Version: "v1", Kind: "Pod"}:
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		return phase == "Succeeded" || phase == "Failed", "Pod is in phase " + phase, true
	}
	return false, "", false
}

// isTrue reports whether a condition of an object is true.
func isTrue(object *unstructured.Unstructured, kind string) bool {
	have, _ := condition(object, kind)
	return have != nil && have["status"] == "True"
}

func condition(object *unstructured.Unstructured, kind string) (map[string]any, bool) {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == kind {
			return c, true
		}
	}
	return nil, false
}
