package replicaset

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// count adds a work up. Conditions of an earlier generation say nothing about
// the template that the work has now; those that name no generation count.
func count(s *workv1alpha1.ManifestWorkReplicaSetSummary, w *workv1.ManifestWork) {
	s.Total++
	for kind, n := range map[string]*int{
		work.ConditionApplied: &s.Applied, work.ConditionAvailable: &s.Available,
		work.ConditionProgressing: &s.Progressing, work.ConditionDegraded: &s.Degraded,
	} {
		c := meta.FindStatusCondition(w.Status.Conditions, kind)
		if c != nil && c.Status == metav1.ConditionTrue && (c.ObservedGeneration == 0 || c.ObservedGeneration == w.Generation) {
			*n++
		}
	}
}

// summary counts the works of all placements.
func (p plan) summary() (s workv1alpha1.ManifestWorkReplicaSetSummary) {
	for _, o := range p.outcomes {
		for _, w := range o.works {
			count(&s, w)
		}
	}
	return s
}

// placementSummaries count the works of each placement that there is.
func (p plan) placementSummaries() (out []workv1alpha1.PlacementSummary) {
	for _, o := range p.outcomes {
		if o.Missing {
			continue
		}
		s := workv1alpha1.PlacementSummary{
			Name:                    o.name,
			AvailableDecisionGroups: fmt.Sprintf("%d (%d / %d clusters applied)", o.DecisionGroups, len(o.works), o.Selected),
		}
		for _, w := range o.works {
			count(&s.Summary, w)
		}
		out = append(out, s)
	}
	return out
}

// conditions are those of a set in a namespace; failed is what could not be
// written.
func (p plan) conditions(namespace string, failed error) []metav1.Condition {
	summary := p.summary()
	verified := p.verified(namespace, summary.Total, failed)
	applied := metav1.Condition{Type: work.ConditionManifestworkApplied, Status: metav1.ConditionFalse, Reason: work.ReasonNotAsExpected}
	switch {
	case failed != nil:
		applied.Message = failed.Error()
	case summary.Total == 0 && verified.Reason == work.ReasonPlacementDecisionEmpty:
		applied.Reason = work.ReasonPlacementDecisionEmpty
	case summary.Total == 0:
	case summary.Available == summary.Total && summary.Progressing == 0 && summary.Degraded == 0:
		applied.Status, applied.Reason = metav1.ConditionTrue, work.ReasonAsExpected
	case summary.Progressing > 0 && summary.Degraded == 0:
		applied.Reason = work.ReasonProcessing
	}
	rolledOut := metav1.Condition{Type: work.ConditionPlacementRolledOut, Status: metav1.ConditionFalse, Reason: work.ReasonRolloutProgressing}
	if p.rolledOut() && failed == nil {
		rolledOut.Status, rolledOut.Reason = metav1.ConditionTrue, work.ReasonRolloutComplete
	}
	all := []metav1.Condition{verified, rolledOut, applied}
	if o := p.overridden; o != nil {
		if o.Status == metav1.ConditionFalse {
			all[1].Message = o.Message
		}
		all = append(all, *o)
	}
	if p.gates != nil {
		if p.gates.Status == metav1.ConditionFalse && all[1].Message == "" {
			all[1].Message = p.gates.Message
		}
		all = append(all, *p.gates)
	}
	return all
}

// verified reports whether the decisions of the placements can be used.
func (p plan) verified(namespace string, total int, failed error) metav1.Condition {
	c := metav1.Condition{Type: work.ConditionPlacementVerified, Status: metav1.ConditionFalse}
	selected := 0
	for _, o := range p.outcomes {
		selected += len(o.Clusters)
		switch {
		case o.Missing:
			c.Reason, c.Message = work.ReasonPlacementDecisionNotFound, fmt.Sprintf("there is no placement %s in the set's namespace", o.name)
			return c
		case o.Problem != nil && c.Reason == "":
			c.Reason, c.Message = work.ReasonNotAsExpected, fmt.Sprintf("placement %s: %s", o.name, o.Problem)
		}
	}
	switch {
	case c.Reason != "":
	case total == 0 && selected == 0:
		c.Reason = work.ReasonPlacementDecisionEmpty
	case total == 0:
		c.Reason, c.Message = work.ReasonNotAsExpected, "no selected cluster has a work yet"
		if failed != nil {
			c.Message = failed.Error()
		}
	default:
		c.Status, c.Reason = metav1.ConditionTrue, work.ReasonAsExpected
	}
	if c.Message == "" {
		c.Message = p.refusals(namespace)
	}
	return c
}

// refusals say which clusters the decisions of the placements name and get no work;
// they are empty when all do.
func (p plan) refusals(namespace string) string {
	var refused []string
	for _, o := range p.outcomes {
		if text := o.Explain(namespace); text != "" {
			refused = append(refused, fmt.Sprintf("placement %s: %s", o.name, text))
		}
	}
	return strings.Join(refused, "; ")
}

// rolledOut reports whether every selected cluster is done with the template. A
// placement writes its decisions before its status, so both are asked.
func (p plan) rolledOut() bool {
	for _, o := range p.outcomes {
		if o.Missing || o.Problem != nil || o.succeeded != o.Selected || o.succeeded != len(o.Clusters) {
			return false
		}
	}
	return true
}
