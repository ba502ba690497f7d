package report

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestConditionRules(t *testing.T) {
	r, err := newRules()
	if err != nil {
		t.Fatal(err)
	}
	deployment := `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":3},"status":{"replicas":3,"conditions":[{"type":"Available","status":"True"}]}}`
	job := func(status string) string { return `{"apiVersion":"batch/v1","kind":"Job","status":` + status + `}` }
	pod := func(phase string) string {
		return `{"apiVersion":"v1","kind":"Pod","status":{"phase":"` + phase + `"}}`
	}
	cel := func(expressions ...string) workv1.ConditionRule {
		return workv1.ConditionRule{Condition: "Ready", Type: workv1.ConditionRuleTypeCEL, CELExpressions: expressions}
	}
	with := func(rule workv1.ConditionRule, message, expression string) workv1.ConditionRule {
		rule.Message, rule.MessageExpression = message, expression
		return rule
	}
	wellKnown := workv1.ConditionRule{Condition: "Complete", Type: workv1.ConditionRuleTypeWellKnownConditions}
	for name, x := range map[string]struct {
		object string
		rule   workv1.ConditionRule
		want   string // status reason: message
	}{
		"holds":                   {deployment, cel("object.status.replicas == object.spec.replicas"), "True ConditionRuleEvaluated: Manifest is Ready"},
		"does not hold":           {deployment, cel("object.spec.replicas > 5"), "False ConditionRuleEvaluated: Manifest is not Ready"},
		"all have to hold":        {deployment, cel("true", "object.spec.replicas > 5", "object.missing"), "False ConditionRuleEvaluated: Manifest is not Ready"},
		"no expression":           {deployment, cel(), "True ConditionRuleEvaluated: Manifest is Ready"},
		"conditions":              {deployment, cel("hasConditions(object.status) && object.status.conditions.exists(c, c.type == 'Available')"), "True ConditionRuleEvaluated: Manifest is Ready"},
		"no conditions":           {job("{}"), cel("!hasConditions(object.status) && !hasConditions({}) && !hasConditions('x') && !hasConditions({'conditions': []}) && !hasConditions({'conditions': null})"), "True ConditionRuleEvaluated: Manifest is Ready"},
		"a missing field":         {deployment, cel("object.missing == 1"), "False ConditionRuleExpressionError: no such key: missing"},
		"not a truth value":       {deployment, cel("object.spec.replicas"), "False ConditionRuleExpressionError: expected bool result, got int64"},
		"a message":               {deployment, with(cel("true"), "all is well", ""), "True ConditionRuleEvaluated: all is well"},
		"a message of its own":    {deployment, with(cel("false"), "all is well", `result ? "yes" : "only " + string(object.spec.replicas)`), "False ConditionRuleEvaluated: only 3"},
		"a message that fails":    {deployment, with(cel("true"), "", "object.missing"), "True ConditionRuleEvaluated: no such key: missing"},
		"a message instead":       {deployment, with(cel("true"), "all is well", "object.missing"), "True ConditionRuleEvaluated: all is well"},
		"another type":            {deployment, workv1.ConditionRule{Condition: "Ready", Type: "Magic"}, `Unknown ConditionRuleInvalid: the rule's type is "Magic": use CEL or WellKnownConditions`},
		"job runs":                {job(`{"active":1}`), wellKnown, "False ConditionRuleEvaluated: Job is not finished"},
		"job complete":            {job(`{"conditions":[{"type":"Complete","status":"True"}]}`), wellKnown, "True ConditionRuleEvaluated: Job is finished"},
		"job failed":              {job(`{"conditions":[{"type":"Failed","status":"True"}]}`), wellKnown, "True ConditionRuleEvaluated: Job is finished"},
		"job failing":             {job(`{"conditions":[{"type":"Failed","status":"False"}]}`), wellKnown, "False ConditionRuleEvaluated: Job is not finished"},
		"pod runs":                {pod("Running"), wellKnown, "False ConditionRuleEvaluated: Pod is in phase Running"},
		"pod succeeded":           {pod("Succeeded"), wellKnown, "True ConditionRuleEvaluated: Pod is in phase Succeeded"},
		"pod failed":              {pod("Failed"), with(wellKnown, "gone", ""), "True ConditionRuleEvaluated: gone"},
		"no well-known kind":      {deployment, wellKnown, ""},
		"no well-known condition": {job(`{}`), workv1.ConditionRule{Condition: "Ready", Type: workv1.ConditionRuleTypeWellKnownConditions}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, c := range r.evaluate(context.Background(), []workv1.ConditionRule{x.rule}, parse(t, x.object), expression.NewBudget()) {
				if c.Type != x.rule.Condition {
					t.Errorf("the type is %s", c.Type)
				}
				got += fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
			}
			if got != x.want {
				t.Errorf("got  %s\nwant %s", got, x.want)
			}
		})
	}
}
