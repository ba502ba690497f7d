package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// byRule reports whether a condition was set by a rule.
func byRule(c metav1.Condition) bool { return strings.HasPrefix(c.Reason, work.ReasonRulePrefix) }

// setRuleConditions adds the conditions that a manifest's rules yield. What is
// said about applying it and about its feedback is not theirs to say.
func setRuleConditions(conditions *[]metav1.Condition, found []metav1.Condition, generation int64) {
	for _, c := range found {
		if c.Type == work.ConditionApplied || c.Type == work.ConditionStatusFeedbackSynced {
			continue
		}
		c.ObservedGeneration = generation
		set(conditions, c)
	}
}

// keepRuleConditions lets what rules said of an object last that cannot be read
// any more, as long as there are the rules: a job that is done stays done when
// its object is cleaned up.
func keepRuleConditions(conditions []metav1.Condition, m *manifest.Manifest, generation int64) {
	for i := range conditions {
		if c := &conditions[i]; byRule(*c) && m.HasRule(c.Type) {
			c.ObservedGeneration = generation
		}
	}
}

// hideRuleConditions removes what rules said of an object that may not be read
// any more. That it is complete stays, without the words: what is done is not
// done a second time.
func hideRuleConditions(conditions *[]metav1.Condition, m *manifest.Manifest, generation int64) {
	*conditions = slices.DeleteFunc(*conditions, func(c metav1.Condition) bool {
		return byRule(c) && (c.Type != work.ConditionComplete || c.Status != metav1.ConditionTrue)
	})
	for i := range *conditions {
		if c := &(*conditions)[i]; byRule(*c) && m.HasRule(c.Type) {
			c.ObservedGeneration, c.Message = generation, work.MessageHiddenComplete
		}
	}
}

// pruneRuleConditions removes conditions whose rules are gone: those that no
// rule has set in this generation.
func pruneRuleConditions(conditions *[]metav1.Condition, generation int64) {
	*conditions = slices.DeleteFunc(*conditions, func(c metav1.Condition) bool {
		return byRule(c) && c.ObservedGeneration != generation
	})
}

// aggregate sums up the conditions that rules set on manifests: one for each
// type, over the manifests that have it. Progressing holds when it holds
// anywhere, all others only when they hold everywhere.
func aggregate(entries []workv1.ManifestCondition, generation int64) []metav1.Condition {
	byType := map[string][]metav1.Condition{}
	for _, e := range entries {
		for _, c := range e.Conditions {
			if byRule(c) && c.ObservedGeneration == generation && c.Type != work.ConditionAvailable {
				byType[c.Type] = append(byType[c.Type], c)
			}
		}
	}
	var out []metav1.Condition
	for kind, list := range byType {
		c := metav1.Condition{
			Type: kind, Status: together(kind, list), Reason: work.ReasonRulesAggregated, ObservedGeneration: generation,
			Message: fmt.Sprintf("Aggregated from %d manifest conditions", len(list)),
		}
		if len(list) == 1 {
			c.Message = list[0].Message
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return out
}

// setAggregated sets a work's conditions that sum up those of its manifests, and
// removes those that no manifest has any more.
func setAggregated(conditions *[]metav1.Condition, aggregated []metav1.Condition) {
	*conditions = slices.DeleteFunc(*conditions, func(c metav1.Condition) bool {
		return c.Reason == work.ReasonRulesAggregated &&
			!slices.ContainsFunc(aggregated, func(a metav1.Condition) bool { return a.Type == c.Type })
	})
	for _, c := range aggregated {
		set(conditions, c)
	}
}

func together(kind string, list []metav1.Condition) metav1.ConditionStatus {
	wins, loses := metav1.ConditionFalse, metav1.ConditionTrue
	if kind == work.ConditionProgressing {
		wins, loses = metav1.ConditionTrue, metav1.ConditionFalse
	}
	status := loses
	for _, c := range list {
		switch {
		case c.Status == wins:
			return wins
		case c.Status != loses:
			status = metav1.ConditionUnknown
		}
	}
	return status
}
