package report

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

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
