package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// OfWork is how far the rollout of a work that has the template is. Only
// conditions that the agent wrote for the current generation count.
//
// Progressing comes from the template's rules, or from an agent that derives it.
// Upstream waits for it forever. Unless needsProgressing asks for that, Applied
// and Available count for a work without it: it is done once both are True.
func OfWork(w *workv1.ManifestWork, needsProgressing bool) ClusterStatus {
	s := ClusterStatus{Cluster: w.Namespace, Status: ToApply}
	find := func(kind string) (c *metav1.Condition, current bool) {
		c = meta.FindStatusCondition(w.Status.Conditions, kind)
		return c, c != nil && c.ObservedGeneration == w.Generation
	}
	applied, current := find(work.ConditionApplied)
	if !current || applied.Status != metav1.ConditionTrue {
		return s
	}
	progressing, current := find(work.ConditionProgressing)
	if progressing == nil && needsProgressing || progressing != nil && !current {
		return s
	}
	degraded, current := find(work.ConditionDegraded)
	if degraded != nil && !current {
		return s
	}
	isDegraded := degraded != nil && degraded.Status == metav1.ConditionTrue
	if progressing == nil {
		available, current := find(work.ConditionAvailable)
		switch {
		case isDegraded:
			s.Status, s.Since = Failed, degraded.LastTransitionTime.Time
		case current && available.Status == metav1.ConditionTrue:
			s.Status, s.Since = Succeeded, later(applied, available)
		case current:
			s.Status, s.Since = Progressing, later(applied, available)
		default:
			s.Status, s.Since = Progressing, applied.LastTransitionTime.Time
		}
		return s
	}
	switch {
	case progressing.Status == metav1.ConditionTrue && isDegraded:
		s.Status, s.Since = Failed, degraded.LastTransitionTime.Time
	case progressing.Status == metav1.ConditionFalse:
		s.Status, s.Since = Succeeded, progressing.LastTransitionTime.Time
	default: // an Unknown is not an end
		s.Status, s.Since = Progressing, progressing.LastTransitionTime.Time
	}
	return s
}

func later(a, b *metav1.Condition) time.Time {
	if a.LastTransitionTime.Before(&b.LastTransitionTime) {
		return b.LastTransitionTime.Time
	}
	return a.LastTransitionTime.Time
}
