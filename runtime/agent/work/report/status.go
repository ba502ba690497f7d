package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
