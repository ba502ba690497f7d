package work

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Where a rollout stands is found without rules for the kinds that are known.
func TestProgress(t *testing.T) {
	deployment := func(status string) string {
		return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generation":2},"spec":{"replicas":3},"status":` + status + `}`
	}
	statefulSet := func(spec, status string) string {
		return `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"generation":1},"spec":` + spec + `,"status":` + status + `}`
	}
	daemonSet := func(status string) string {
		return `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"generation":1},"spec":{},"status":` + status + `}`
	}
	pod := func(status string) string { return `{"apiVersion":"v1","kind":"Pod","status":` + status + `}` }
	for name, x := range map[string]struct{ object, want string }{
		"deployment, unseen":          {deployment(`{"observedGeneration":1,"replicas":3,"updatedReplicas":3,"availableReplicas":3}`), "moving: its controller has not seen the spec yet"},
		"deployment, updating":        {deployment(`{"observedGeneration":2,"replicas":3,"updatedReplicas":1,"availableReplicas":3}`), "moving: 1 of 3 replicas are updated"},
		"deployment, old ones left":   {deployment(`{"observedGeneration":2,"replicas":4,"updatedReplicas":3,"availableReplicas":3}`), "moving: 1 old replicas are still there"},
		"deployment, not available":   {deployment(`{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"availableReplicas":2}`), "moving: 2 of 3 replicas are available"},
		"deployment, there":           {deployment(`{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"availableReplicas":3}`), "settled"},
		"deployment, too slow":        {deployment(`{"observedGeneration":2,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"has timed out"}]}`), "stuck: has timed out"},
		"deployment, no pods":         {deployment(`{"observedGeneration":2,"conditions":[{"type":"ReplicaFailure","status":"True","message":"exceeded quota"}]}`), "stuck: exceeded quota"},
		"deployment, at zero":         {`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generation":1},"spec":{"replicas":0},"status":{"observedGeneration":1}}`, "settled"},
		"stateful set, updating":      {statefulSet(`{"replicas":3}`, `{"observedGeneration":1,"updatedReplicas":1,"readyReplicas":3}`), "moving: 1 of 3 replicas are updated"},
		"stateful set, partitioned":   {statefulSet(`{"replicas":3,"updateStrategy":{"rollingUpdate":{"partition":2}}}`, `{"observedGeneration":1,"updatedReplicas":1,"readyReplicas":3}`), "settled"},
		"stateful set, on delete":     {statefulSet(`{"replicas":3,"updateStrategy":{"type":"OnDelete"}}`, `{"observedGeneration":1,"updatedReplicas":0,"readyReplicas":3}`), "settled"},
		"stateful set, not ready":     {statefulSet(`{"replicas":3}`, `{"observedGeneration":1,"updatedReplicas":3,"readyReplicas":2}`), "moving: 2 of 3 replicas are ready"},
		"daemon set, no node":         {daemonSet(`{"observedGeneration":1}`), "settled"},
		"daemon set, updating":        {daemonSet(`{"observedGeneration":1,"desiredNumberScheduled":2,"updatedNumberScheduled":1,"numberAvailable":2}`), "moving: 1 of 2 pods are updated"},
		"daemon set, not available":   {daemonSet(`{"observedGeneration":1,"desiredNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":1}`), "moving: 1 of 2 pods are available"},
		"job, running":                {`{"apiVersion":"batch/v1","kind":"Job","status":{"succeeded":1}}`, "moving: it is not finished: 1 pods have succeeded"},
		"job, done":                   {`{"apiVersion":"batch/v1","kind":"Job","status":{"conditions":[{"type":"Complete","status":"True"}]}}`, "settled"},
		"job, failed":                 {`{"apiVersion":"batch/v1","kind":"Job","status":{"conditions":[{"type":"Failed","status":"True","message":"too many retries"}]}}`, "stuck: too many retries"},
		"pod, new":                    {pod(`{}`), "moving: nobody has taken it yet"},
		"pod, pending":                {pod(`{"phase":"Pending"}`), "moving: it is Pending"},
		"pod, not ready":              {pod(`{"phase":"Running"}`), "moving: it is not ready"},
		"pod, ready":                  {pod(`{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`), "settled"},
		"pod, done":                   {pod(`{"phase":"Succeeded"}`), "settled"},
		"pod, failed":                 {pod(`{"phase":"Failed","message":"evicted"}`), "stuck: it has failed: evicted"},
		"replica set, not available":  {`{"apiVersion":"apps/v1","kind":"ReplicaSet","spec":{"replicas":2},"status":{"availableReplicas":1}}`, "moving: 1 of 2 replicas are available"},
		"a kind without such a thing": {`{"apiVersion":"v1","kind":"ConfigMap"}`, "settled"},
	} {
		t.Run(name, func(t *testing.T) {
			p := progressOf(parse(t, x.object))
			got := "settled"
			switch {
			case p.degraded && p.moving:
				got = "stuck: " + p.why
			case p.moving:
				got = "moving: " + p.why
			}
			if got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}

func TestConditionsOfManifestsAreAggregated(t *testing.T) {
	entry := func(kind string, status metav1.ConditionStatus, message string) workv1.ManifestCondition {
		return workv1.ManifestCondition{Conditions: []metav1.Condition{{Type: kind, Status: status, Reason: "ConditionRuleEvaluated", Message: message, ObservedGeneration: 3}}}
	}
	old := entry("Ready", metav1.ConditionFalse, "of before")
	old.Conditions[0].ObservedGeneration = 2
	theirs := entry("Ready", metav1.ConditionFalse, "of others")
	theirs.Conditions[0].Reason = "Other"
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	for name, x := range map[string]struct {
		entries []workv1.ManifestCondition
		want    string
	}{
		"one":                    {[]workv1.ManifestCondition{entry("Ready", yes, "fine")}, "Ready True fine;"},
		"all true":               {[]workv1.ManifestCondition{entry("Ready", yes, "a"), entry("Ready", yes, "b")}, "Ready True Aggregated from 2 manifest conditions;"},
		"false wins":             {[]workv1.ManifestCondition{entry("Ready", yes, "a"), entry("Ready", unknown, "b"), entry("Ready", no, "c")}, "Ready False Aggregated from 3 manifest conditions;"},
		"unknown before true":    {[]workv1.ManifestCondition{entry("Ready", yes, "a"), entry("Ready", unknown, "b")}, "Ready Unknown Aggregated from 2 manifest conditions;"},
		"progressing: true wins": {[]workv1.ManifestCondition{entry("Progressing", no, "a"), entry("Progressing", unknown, "b"), entry("Progressing", yes, "c")}, "Progressing True Aggregated from 3 manifest conditions;"},
		"progressing: unknown":   {[]workv1.ManifestCondition{entry("Progressing", no, "a"), entry("Progressing", unknown, "b")}, "Progressing Unknown Aggregated from 2 manifest conditions;"},
		"progressing: false":     {[]workv1.ManifestCondition{entry("Progressing", no, "a"), entry("Progressing", no, "b")}, "Progressing False Aggregated from 2 manifest conditions;"},
		"each type by itself":    {[]workv1.ManifestCondition{entry("Ready", yes, "a"), entry("Complete", no, "b")}, "Complete False b;Ready True a;"},
		"old and others' don't":  {[]workv1.ManifestCondition{entry("Ready", yes, "a"), old, theirs}, "Ready True a;"},
		"none":                   {nil, ""},
	} {
		got := ""
		for _, c := range aggregate(x.entries, 3) {
			got += fmt.Sprintf("%s %s %s;", c.Type, c.Status, c.Message)
			if c.Reason != "ConditionRulesAggregated" || c.ObservedGeneration != 3 {
				t.Errorf("%s: %+v", name, c)
			}
		}
		if got != x.want {
			t.Errorf("%s: got %s, want %s", name, got, x.want)
		}
	}
}
