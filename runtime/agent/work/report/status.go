// Package report makes the status of a ManifestWork. It evaluates what the work says
// about its objects: values of their status (feedback), conditions by rules, and how
// far they have progressed. From the outcomes of the manifests it makes the status,
// and makes it fit into the store.
//
// It is pure: values in, values out. It sends no requests and remembers nothing.
// What the author of a work has evaluated costs that work: there are budgets, and
// costly works take turns.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klog "k8s.io/klog/v2"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Status is what a work's status becomes with the outcomes of its manifests.
// Conditions that others wrote stay. derive says whether the conditions about a
// rollout are found without rules, too.
func Status(
	mw *workv1.ManifestWork, manifests []*manifest.Manifest, outcomes []Outcome, derive bool,
) workv1.ManifestWorkStatus {
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
		entry := manifestStatus(old, generation, m, outcomes[i])
		after.ResourceStatus.Manifests = append(after.ResourceStatus.Manifests, entry)
		applied = applied && outcomes[i].Applied == nil
	}
	pruneRuleConditions(&after.Conditions, generation)
	if len(after.ResourceStatus.Manifests) == 0 {
		return after
	}
	var conditions []metav1.Condition
	switch {
	case kept:
	case applied:
		conditions = append(conditions, metav1.Condition{
			Type: work.ConditionApplied, Status: metav1.ConditionTrue,
			Reason: work.ReasonWorkApplied, Message: work.MessageWorkApplied,
		})
	default:
		conditions = append(conditions, metav1.Condition{
			Type: work.ConditionApplied, Status: metav1.ConditionFalse,
			Reason: work.ReasonWorkFailed, Message: work.MessageWorkFailed,
		})
	}
	conditions = append(conditions, available(after.ResourceStatus.Manifests))
	conditions = append(conditions, aggregate(after.ResourceStatus.Manifests, generation)...)
	if derive && Derives(mw) {
		conditions = append(conditions, derived(manifests, outcomes)...)
	}
	// Those that sum up what no manifest has any more.
	after.Conditions = slices.DeleteFunc(after.Conditions, func(c metav1.Condition) bool {
		return isSummary(c.Reason) &&
			!slices.ContainsFunc(conditions, func(now metav1.Condition) bool { return now.Type == c.Type })
	})
	for _, c := range conditions {
		c.ObservedGeneration = generation
		set(&after.Conditions, c)
	}
	return after
}

// available sums up whether the objects of a work are there.
func available(entries []workv1.ManifestCondition) metav1.Condition {
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
	c := metav1.Condition{Type: work.ConditionAvailable}
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
		c.Status, c.Reason = metav1.ConditionTrue, work.ReasonResourcesAvailable
		c.Message = work.MessageResourcesAvailable
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
			Type: kind, Status: together(kind, list), ObservedGeneration: generation,
			Reason:  work.ReasonRulesAggregated,
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

// together is the status of a condition of a work by those of its manifests.
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

// Derives reports whether conditions of a work are derived without rules: it belongs to a rollout
// over many clusters, of a replica set or of an add-on.
func Derives(mw *workv1.ManifestWork) bool {
	return mw.Labels[work.ReplicaSetLabel] != "" || mw.Labels[cluster.AddOnNameLabel] != ""
}

// isSummary reports whether a reason is one of aggregate's or of derived's.
func isSummary(reason string) bool {
	return slices.Contains([]string{
		work.ReasonRulesAggregated,
		work.ReasonWorkloadsMoving, work.ReasonWorkloadsSettled,
		work.ReasonWorkloadsDegraded, work.ReasonWorkloadsHealthy,
	}, reason)
}

// MaxNamed is how many objects a message names.
const MaxNamed = 3

// derived are the conditions that a rollout over many clusters goes by, Progressing
// and Degraded, as far as there are no rules for them: from the status of the kinds
// that are known, and from whether the objects were applied and are there. Upstream's
// agent sets none then, and a progressive rollout stays where it is.
func derived(manifests []*manifest.Manifest, outcomes []Outcome) []metav1.Condition {
	var moving, stuck []string
	for i, m := range manifests {
		o := outcomes[i]
		name := m.Meta.Kind + " " + klog.KRef(m.Meta.Namespace, m.Meta.Name).String()
		switch {
		case o.Applied != nil:
			moving = append(moving, name+": it is not applied")
		case o.Fetched != nil || !o.Exists:
			moving = append(moving, name+": it is not available")
		case o.Progress.Moving:
			moving = append(moving, name+": "+o.why())
		}
		if o.Progress.Degraded {
			stuck = append(stuck, name+": "+o.why())
		}
	}
	progressing := metav1.Condition{
		Type: work.ConditionProgressing, Status: metav1.ConditionFalse,
		Reason: work.ReasonWorkloadsSettled, Message: "All resources are as they should be",
	}
	if len(moving) > 0 {
		progressing.Status, progressing.Reason = metav1.ConditionTrue, work.ReasonWorkloadsMoving
		progressing.Message = some(moving)
	}
	degraded := metav1.Condition{
		Type: work.ConditionDegraded, Status: metav1.ConditionFalse,
		Reason: work.ReasonWorkloadsHealthy, Message: "No resource has failed",
	}
	if len(stuck) > 0 {
		degraded.Status, degraded.Reason = metav1.ConditionTrue, work.ReasonWorkloadsDegraded
		degraded.Message = some(stuck)
	}
	return slices.DeleteFunc([]metav1.Condition{progressing, degraded}, func(c metav1.Condition) bool {
		return slices.ContainsFunc(manifests, func(m *manifest.Manifest) bool { return m.HasRule(c.Type) })
	})
}

// why says why an object is moving.
func (o Observed) why() string {
	if o.Problem == "" {
		return o.Progress.Why
	}
	return o.Progress.Why + ": " + o.Problem
}

// some is a text of the first few items and of how many there are beyond.
func some(items []string) string { return strings.Join(text.First(items, MaxNamed), "; ") }

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

// Remainder is an object that is being deleted and still there.
type Remainder struct {
	Resource   workv1.AppliedManifestResourceMeta
	Finalizers []string // what holds it, where that is known
	Hidden     bool     // the work's executor may not get it
}

// NameOf names an applied object in messages: its resource, namespace and name.
func NameOf(r workv1.AppliedManifestResourceMeta) string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	return resource + " " + klog.KRef(r.Namespace, r.Name).String()
}

// waitingFor says in words what objects are waited for, and who holds them.
func waitingFor(left []Remainder) string {
	var out []string
	hidden := 0
	for _, r := range left {
		if r.Hidden {
			hidden++
			continue
		}
		text := NameOf(r.Resource)
		switch len(r.Finalizers) {
		case 0:
		case 1:
			text += ", held by the finalizer " + r.Finalizers[0]
		default:
			text += ", held by the finalizers " + strings.Join(r.Finalizers, ", ")
		}
		out = append(out, text)
	}
	slices.Sort(out)
	switch {
	case hidden == 0:
		return some(out)
	case len(out) == 0:
		return fmt.Sprintf("%d objects", hidden)
	}
	return fmt.Sprintf("%s; and %d more", some(out), hidden)
}

// SetPruned says in a work's conditions which objects that it no longer holds
// are still there; it says nothing once they are gone.
func SetPruned(conditions *[]metav1.Condition, left []Remainder, generation int64) {
	if len(left) == 0 {
		meta.RemoveStatusCondition(conditions, work.ConditionPruned)
		return
	}
	set(conditions, metav1.Condition{
		Type: work.ConditionPruned, Status: metav1.ConditionFalse, ObservedGeneration: generation,
		Reason:  work.ReasonResourcesHeld,
		Message: "Waiting for objects that the work no longer holds: " + waitingFor(left),
	})
}

// DeletingMessage says what a deleted work waits for.
func DeletingMessage(left []Remainder) string {
	if len(left) == 0 {
		return work.MessageDeleting
	}
	return fmt.Sprintf("%s: waiting for %s", work.MessageDeleting, waitingFor(left))
}
