package report

import (
	"errors"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// manifestStatus is the entry of one manifest, made from the one before.
func manifestStatus(
	before *workv1.ManifestCondition, generation int64, m *manifest.Manifest, o Outcome,
) workv1.ManifestCondition {
	entry := workv1.ManifestCondition{ResourceMeta: m.Meta}
	if before != nil {
		entry.Conditions = append(entry.Conditions, before.Conditions...)
		entry.StatusFeedbacks = before.StatusFeedbacks
	}
	if !o.Kept {
		set(&entry.Conditions, manifestApplied(o, generation))
	}
	setContested(&entry.Conditions, o, generation)
	// Whether the object exists has no generation: it is as it is now.
	set(&entry.Conditions, availability(m, o))
	switch {
	case o.Hidden:
		// What was reported of it before is hidden, too.
		entry.StatusFeedbacks.Values = nil
		meta.RemoveStatusCondition(&entry.Conditions, work.ConditionStatusFeedbackSynced)
		hideRuleConditions(&entry.Conditions, m, generation)
	case o.Exists && o.Waits == 0:
		changed := !apiequality.Semantic.DeepEqual(entry.StatusFeedbacks.Values, o.Findings.Feedback.Values)
		entry.StatusFeedbacks.Values = o.Findings.Feedback.Values
		if changed { // the time of the condition is when the values changed
			meta.RemoveStatusCondition(&entry.Conditions, work.ConditionStatusFeedbackSynced)
		}
		meta.SetStatusCondition(&entry.Conditions, feedbackSynced(m, o))
		setRuleConditions(&entry.Conditions, o.Findings.Conditions, generation)
	default:
		keepRuleConditions(entry.Conditions, m, generation)
	}
	pruneRuleConditions(&entry.Conditions, generation)
	return entry
}

// manifestApplied is whether a manifest was applied, and why it was not.
func manifestApplied(o Outcome, generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: work.ConditionApplied, Status: metav1.ConditionTrue, ObservedGeneration: generation,
		Reason: work.ReasonManifestApplied, Message: work.MessageManifestApplied,
	}
	switch {
	case errors.Is(o.Applied, manifest.ErrIgnoreFields):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, work.ReasonIgnoreFieldError, o.Applied.Error()
	case o.Applied != nil:
		c.Status, c.Reason = metav1.ConditionFalse, work.ReasonManifestFailed
		c.Message = "Failed to apply manifest: " + o.Applied.Error()
	}
	return c
}

// availability is whether the object of a manifest is there.
func availability(m *manifest.Manifest, o Outcome) metav1.Condition {
	c := metav1.Condition{Type: work.ConditionAvailable}
	switch {
	case m.GVR.Resource == "" || m.Meta.Name == "":
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, work.ReasonIncompleteMeta, work.MessageIncompleteMeta
	case o.Hidden && o.Applied != nil:
		// As upstream's agent reports it, and without reading the object.
		c.Status, c.Reason = metav1.ConditionFalse, work.ReasonResourceMissing
		c.Message = work.MessageResourceMissing + ": " + o.Fetched.Error()
	case o.Fetched != nil:
		c.Status, c.Reason = metav1.ConditionUnknown, work.ReasonFetchFailed
		c.Message = "Failed to fetch resource: " + o.Fetched.Error()
	case o.Exists:
		c.Status, c.Reason = metav1.ConditionTrue, work.ReasonResourceAvailable
		c.Message = work.MessageResourceAvailable
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, work.ReasonResourceMissing, work.MessageResourceMissing
	}
	return c
}

// setContested reports that others keep changing an object back, unless the executor
// may not get the object.
func setContested(conditions *[]metav1.Condition, o Outcome, generation int64) {
	if !o.Contested || o.Hidden || o.Kept {
		meta.RemoveStatusCondition(conditions, work.ConditionContested)
		return
	}
	message := "Others keep changing this object back, so it is restored less and less often."
	switch len(o.Rivals) {
	case 0:
		message += " Make sure that no controller sets what the manifest sets"
	case 1:
		message += " The work " + o.Rivals[0] + " holds it, too: let only one work hold an object"
	default:
		message += " The works " + strings.Join(o.Rivals, ", ") + " hold it, too: let only one work hold an object"
	}
	set(conditions, metav1.Condition{
		Type: work.ConditionContested, Status: metav1.ConditionTrue, ObservedGeneration: generation,
		Reason: work.ReasonChangedByOthers, Message: message,
	})
}

// feedbackSynced is whether all of the wanted feedback could be read.
func feedbackSynced(m *manifest.Manifest, o Outcome) metav1.Condition {
	c := metav1.Condition{
		Type: work.ConditionStatusFeedbackSynced, Status: metav1.ConditionTrue, Reason: work.ReasonFeedbackSynced,
	}
	switch {
	case len(m.FeedbackRules) == 0:
		c.Reason = work.ReasonNoFeedback
	case o.Findings.Feedback.Err != nil:
		c.Status, c.Reason = metav1.ConditionFalse, work.ReasonFeedbackFailed
		problems := strings.ReplaceAll(o.Findings.Feedback.Err.Error(), "\n", "; ")
		c.Message = "Sync status feedback failed with error " + problems
	}
	return c
}

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

// set sets a condition. One of another generation counts as a new one, with a
// transition time of its own.
func set(conditions *[]metav1.Condition, c metav1.Condition) {
	have := meta.FindStatusCondition(*conditions, c.Type)
	if have != nil && have.ObservedGeneration != c.ObservedGeneration {
		meta.RemoveStatusCondition(conditions, c.Type)
	}
	meta.SetStatusCondition(conditions, c)
}
