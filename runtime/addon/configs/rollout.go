package configs

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// RolloutStatus is how far a ManagedClusterAddOn has come with the configurations
// that count for it.
//
// It has yet to apply them when its status names other ones, in another order, or
// with other hashes; an entry without a desired configuration is another one. It is
// done when it has applied all of them last. In between its condition Progressing
// says so, and since when: without a time no deadline is counted.
func RolloutStatus(a *v1alpha1.ManagedClusterAddOn, want Set) rollout.ClusterStatus {
	out := rollout.ClusterStatus{Cluster: a.Namespace, Status: rollout.ToApply}
	have := a.Status.ConfigReferences
	if len(have) != len(want) {
		return out
	}
	applied := true
	for i, r := range have {
		if r.DesiredConfig == nil || !isDesired(r, want[i]) {
			return out
		}
		applied = applied && apiequality.Semantic.DeepEqual(r.DesiredConfig, r.LastAppliedConfig)
	}
	progressing := meta.FindStatusCondition(a.Status.Conditions, addon.ConditionProgressing)
	reason := ""
	if progressing != nil {
		reason = progressing.Reason
	}
	switch {
	case applied:
		out.Status = rollout.Succeeded
		if reason == addon.ReasonCompleted {
			out.Since = progressing.LastTransitionTime.Time
		}
	case reason == addon.ReasonFailed:
		out.Status, out.Since = rollout.Failed, progressing.LastTransitionTime.Time
	case reason == addon.ReasonProgressing:
		out.Status, out.Since = rollout.Progressing, progressing.LastTransitionTime.Time
	default:
		out.Status = rollout.Progressing
	}
	return out
}

func isDesired(r v1alpha1.ConfigReference, c Config) bool {
	return r.ConfigGroupResource == c.ConfigGroupResource && r.DesiredConfig.ConfigReferent == c.ConfigReferent && r.DesiredConfig.SpecHash == c.SpecHash
}
