package configuration

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// counts are the clusters of a placement, by how far they are.
type counts struct {
	// selected are all that the placement selects, total those that go by it and by
	// no later one.
	selected, total                int
	underWay, done, failed, gaveUp int
}

// count adds a cluster that has the add-on. One that has succeeded is done when it
// has been well for long enough; one that fails while its turn lasts is under way.
func (n *counts) count(s rollout.ClusterStatus, underWay, timedOut bool, soak time.Duration, now time.Time) {
	switch {
	case timedOut:
		n.gaveUp++
	case underWay:
		n.underWay++
	case s.Status == rollout.Failed:
		n.failed++
	case s.Status == rollout.Succeeded && (soak == 0 || !s.Since.IsZero() && !now.Before(s.Since.Add(soak))):
		n.done++
	}
}

// report says how far the placement is. When all of its clusters are done, what was
// wanted is what was applied and is known to be good. The explanation, which may be
// empty, says which clusters of the decisions get nothing.
func (n counts) report(p *v1alpha1.InstallProgression, explanation string, now time.Time) {
	condition := metav1.Condition{Type: addon.ConditionProgressing, LastTransitionTime: metav1.NewTime(now)}
	if n.total == 0 || n.done != n.total {
		condition.Status, condition.Reason = metav1.ConditionTrue, addon.ReasonProgressing
		condition.Message = fmt.Sprintf("selected clusters %d. configured addons %d/%d progressing..., %d failed %d timeout.",
			n.selected, n.underWay+n.done, n.total, n.failed, n.gaveUp)
	} else {
		condition.Status, condition.Reason = metav1.ConditionFalse, addon.ReasonCompleted
		condition.Message = fmt.Sprintf("selected clusters %d. configured addons %d/%d completed with no errors, %d failed %d timeout.",
			n.selected, n.done, n.total, n.failed, n.gaveUp)
		for i := range p.ConfigReferences {
			r := &p.ConfigReferences[i]
			r.LastAppliedConfig, r.LastKnownGoodConfig = r.DesiredConfig.DeepCopy(), r.DesiredConfig.DeepCopy()
		}
	}
	if explanation != "" {
		condition.Message += " " + explanation
	}
	meta.SetStatusCondition(&p.Conditions, condition)
}

// setFailed reports why a placement's clusters can't be configured.
func setFailed(p *v1alpha1.InstallProgression, problem error, now time.Time) {
	meta.SetStatusCondition(&p.Conditions, metav1.Condition{
		Type: addon.ConditionProgressing, Status: metav1.ConditionFalse, Reason: addon.ReasonFailed, Message: problem.Error(),
		LastTransitionTime: metav1.NewTime(now),
	})
}

// problemOf is why a placement's clusters can't be configured.
func problemOf(placed selection.Placed, p v1alpha1.PlacementStrategy) error {
	if placed.Missing {
		return fmt.Errorf("there is no placement %s/%s: create it, or take it out of spec.installStrategy.placements", p.Namespace, p.Name)
	}
	return placed.Problem
}

// withDefaults is a strategy with what applies where its author says nothing: all
// clusters at once, or of a progressive one as many as a decision group of the
// placement has.
func withDefaults(s clusterv1alpha1.RolloutStrategy, placed selection.Placed) clusterv1alpha1.RolloutStrategy {
	switch s.Type {
	case "":
		s.Type = clusterv1alpha1.RolloutTypeAll
	case clusterv1alpha1.RolloutTypeProgressive:
		s = *s.DeepCopy()
		if s.Progressive == nil {
			s.Progressive = &clusterv1alpha1.RolloutProgressive{}
		}
		if s.Progressive.MaxConcurrency == (intstr.IntOrString{}) {
			s.Progressive.MaxConcurrency = placed.ClustersPerGroup
		}
	}
	return s
}

// soakOf is how long a cluster has to be well before it counts as done. A strategy
// that can't be read has been refused before.
func soakOf(s clusterv1alpha1.RolloutStrategy) time.Duration {
	var config clusterv1alpha1.RolloutConfig
	switch {
	case s.Type == clusterv1alpha1.RolloutTypeProgressive && s.Progressive != nil:
		config = s.Progressive.RolloutConfig
	case s.Type == clusterv1alpha1.RolloutTypeProgressivePerGroup && s.ProgressivePerGroup != nil:
		config = s.ProgressivePerGroup.RolloutConfig
	}
	soak, _ := config.SuccessTime()
	return soak
}
