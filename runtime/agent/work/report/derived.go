package report

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klog "k8s.io/klog/v2"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// setDerived sets the conditions that a rollout over many clusters goes by,
// Progressing and Degraded, on the works of replica sets that have no rules for
// them: from the status of the kinds that are known, and from whether the
// objects were applied and are there. Upstream's agent sets none then, and a
// progressive rollout stays where it is.
func setDerived(conditions *[]metav1.Condition, mw *workv1.ManifestWork, manifests []*manifest.Manifest, outcomes []Outcome, derive bool) {
	_, rolledOut := mw.Labels[work.ReplicaSetLabel]
	progressing, degraded := derived(manifests, outcomes)
	for _, c := range []metav1.Condition{progressing, degraded} {
		ruled := slices.ContainsFunc(manifests, func(m *manifest.Manifest) bool { return m.HasRule(c.Type) })
		if derive && rolledOut && !ruled {
			c.ObservedGeneration = mw.Generation
			set(conditions, c)
			continue
		}
		if have := meta.FindStatusCondition(*conditions, c.Type); have != nil && isDerived(have.Reason) {
			meta.RemoveStatusCondition(conditions, c.Type)
		}
	}
}

func isDerived(reason string) bool {
	switch reason {
	case work.ReasonWorkloadsMoving, work.ReasonWorkloadsSettled, work.ReasonWorkloadsDegraded, work.ReasonWorkloadsHealthy:
		return true
	}
	return false
}

// MaxNamed is how many objects a message names.
const MaxNamed = 3

func derived(manifests []*manifest.Manifest, outcomes []Outcome) (progressing, degraded metav1.Condition) {
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
			moving = append(moving, name+": "+o.Progress.Why)
		}
		if o.Progress.Degraded {
			stuck = append(stuck, name+": "+o.Progress.Why)
		}
	}
	progressing = metav1.Condition{
		Type: work.ConditionProgressing, Status: metav1.ConditionFalse,
		Reason: work.ReasonWorkloadsSettled, Message: "All resources are as they should be",
	}
	if len(moving) > 0 {
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionTrue, work.ReasonWorkloadsMoving, some(moving)
	}
	degraded = metav1.Condition{
		Type: work.ConditionDegraded, Status: metav1.ConditionFalse,
		Reason: work.ReasonWorkloadsHealthy, Message: "No resource has failed",
	}
	if len(stuck) > 0 {
		degraded.Status, degraded.Reason, degraded.Message = metav1.ConditionTrue, work.ReasonWorkloadsDegraded, some(stuck)
	}
	return progressing, degraded
}

// some is a text of the first few items and of how many there are beyond.
func some(items []string) string {
	if n := len(items) - MaxNamed; n > 0 {
		return strings.Join(items[:MaxNamed], "; ") + fmt.Sprintf("; and %d more", n)
	}
	return strings.Join(items, "; ")
}
