package report

import (
	"errors"
	"fmt"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/failure"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Status is what a work's status becomes with the outcomes of its manifests.
// Conditions that others wrote stay. derive says whether the conditions about a
// rollout are found without rules, too.
func Status(mw *workv1.ManifestWork, manifests []*manifest.Manifest, outcomes []Outcome, derive bool) workv1.ManifestWorkStatus {
	before, generation := mw.Status, mw.Generation
	after := *before.DeepCopy()
	after.ResourceStatus.Manifests = nil
	applied, kept := true, false
	reported := manifest.EntriesOf(before.ResourceStatus.Manifests)
	for i, m := range manifests {
		old := reported.Find(m.Meta)
		if outcomes[i].Kept {
			kept = true
			if old == nil {
				continue // it came when the work was complete, and is not applied
			}
		}
		after.ResourceStatus.Manifests = append(after.ResourceStatus.Manifests, manifestStatus(old, generation, m, outcomes[i]))
		applied = applied && outcomes[i].Applied == nil
	}
	pruneRuleConditions(&after.Conditions, generation)
	if len(after.ResourceStatus.Manifests) == 0 {
		return after
	}
	switch {
	case kept:
	case applied:
		set(&after.Conditions, metav1.Condition{
			Type: work.ConditionApplied, Status: metav1.ConditionTrue, ObservedGeneration: generation,
			Reason: work.ReasonWorkApplied, Message: work.MessageWorkApplied,
		})
	default:
		set(&after.Conditions, metav1.Condition{
			Type: work.ConditionApplied, Status: metav1.ConditionFalse, ObservedGeneration: generation,
			Reason: work.ReasonWorkFailed, Message: work.MessageWorkFailed,
		})
	}
	set(&after.Conditions, available(after.ResourceStatus.Manifests, generation))
	setAggregated(&after.Conditions, aggregate(after.ResourceStatus.Manifests, generation))
	setDerived(&after.Conditions, mw, manifests, outcomes, derive)
	return after
}

// available sums up whether the objects of a work are there.
func available(entries []workv1.ManifestCondition, generation int64) metav1.Condition {
	there, missing, unknown := 0, 0, 0
	for _, e := range entries {
		switch c := meta.FindStatusCondition(e.Conditions, work.ConditionAvailable); {
		case c == nil || c.Status == metav1.ConditionUnknown:
			unknown++
		case c.Status == metav1.ConditionTrue:
			there++
		default:
			missing++
		}
	}
	total := len(entries)
	c := metav1.Condition{Type: work.ConditionAvailable, ObservedGeneration: generation}
	switch {
	case missing > 0:
		c.Status, c.Reason = metav1.ConditionFalse, work.ReasonResourcesMissing
		c.Message = fmt.Sprintf("%d of %d resources are not available", missing, total)
	case unknown > 0 && there == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, work.ReasonResourcesUnknown, work.MessageNoResource
	case unknown > 0:
		c.Status, c.Reason = metav1.ConditionUnknown, work.ReasonResourcesUnknown
		c.Message = fmt.Sprintf("%d of %d resources have unknown status", unknown, total)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, work.ReasonResourcesAvailable, work.MessageResourcesAvailable
	}
	return c
}

// Refused is what the status of a work becomes that cannot be carried out as a
// whole.
func Refused(before workv1.ManifestWorkStatus, generation int64, why error) workv1.ManifestWorkStatus {
	after := *before.DeepCopy()
	set(&after.Conditions, metav1.Condition{
		Type: work.ConditionApplied, Status: metav1.ConditionFalse, Reason: work.ReasonWorkFailed,
		Message: work.MessageWorkFailed + ": " + why.Error(), ObservedGeneration: generation,
	})
	return after
}

// manifestStatus is the entry of one manifest, made from the one before.
func manifestStatus(before *workv1.ManifestCondition, generation int64, m *manifest.Manifest, o Outcome) workv1.ManifestCondition {
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

func manifestApplied(o Outcome, generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: work.ConditionApplied, Status: metav1.ConditionTrue, ObservedGeneration: generation,
		Reason: work.ReasonManifestApplied, Message: work.MessageManifestApplied,
	}
	switch {
	case errors.Is(o.Applied, failure.ErrIgnoreFields):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, work.ReasonIgnoreFieldError, o.Applied.Error()
	case o.Applied != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, work.ReasonManifestFailed, "Failed to apply manifest: "+o.Applied.Error()
	}
	return c
}

func availability(m *manifest.Manifest, o Outcome) metav1.Condition {
	c := metav1.Condition{Type: work.ConditionAvailable}
	switch {
	case m.GVR.Resource == "" || m.Meta.Name == "":
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, work.ReasonIncompleteMeta, work.MessageIncompleteMeta
	case o.Fetched != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, work.ReasonFetchFailed, "Failed to fetch resource: "+o.Fetched.Error()
	case o.Exists:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, work.ReasonResourceAvailable, work.MessageResourceAvailable
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, work.ReasonResourceMissing, work.MessageResourceMissing
	}
	return c
}

// setContested tells of an object that others keep changing back; of one that the
// executor may not get it tells nothing.
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

func feedbackSynced(m *manifest.Manifest, o Outcome) metav1.Condition {
	c := metav1.Condition{Type: work.ConditionStatusFeedbackSynced, Status: metav1.ConditionTrue, Reason: work.ReasonFeedbackSynced}
	switch {
	case len(m.FeedbackRules) == 0:
		c.Reason = work.ReasonNoFeedback
	case o.Findings.Feedback.Err != nil:
		c.Status, c.Reason = metav1.ConditionFalse, work.ReasonFeedbackFailed
		c.Message = "Sync status feedback failed with error " + strings.ReplaceAll(o.Findings.Feedback.Err.Error(), "\n", "; ")
	}
	return c
}

// set sets a condition. One of another generation counts as a new one, with a
// transition time of its own.
func set(conditions *[]metav1.Condition, c metav1.Condition) {
	if have := meta.FindStatusCondition(*conditions, c.Type); have != nil && have.ObservedGeneration != c.ObservedGeneration {
		meta.RemoveStatusCondition(conditions, c.Type)
	}
	meta.SetStatusCondition(conditions, c)
}
