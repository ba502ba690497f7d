package progressing

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/rolloutstatus"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/health"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/workcache"
)

// decide is the condition Progressing of an add-on with its works.
func decide(a *v1alpha1.ManagedClusterAddOn, works []*workv1.ManifestWork) metav1.Condition {
	if kind, found := configs.Unsupported(a); found {
		return waiting(addon.ReasonConfigurationUnsupported,
			fmt.Sprintf("Configuration with gvr %s/%s is not supported for this addon", kind.Group, kind.Resource))
	}
	manifests := meta.FindStatusCondition(a.Status.Conditions, addon.ConditionManifestApplied)
	if manifests == nil {
		return waiting(addon.ReasonWaitingForManifestApplied, addon.MessageWaitingForManifestApplied)
	}
	hosted := a.Annotations[addon.HostingClusterAnnotation] != ""
	if hosted && meta.FindStatusCondition(a.Status.Conditions, addon.ConditionHostingManifestApplied) == nil {
		return waiting(addon.ReasonWaitingForHostingManifestApplied, addon.MessageWaitingForHostingManifestApplied)
	}
	// Where there is nothing to deploy, there is nothing to wait for. Upstream waits
	// forever.
	empty := manifests.Status == metav1.ConditionTrue && manifests.Message == addon.MessageNoManifest && !hosted
	if len(works) == 0 && !empty {
		return underWay(addon.MessageNoWorks)
	}
	for _, w := range works {
		if strings.HasPrefix(w.Name, addon.PreDeleteWorkName(a.Name)) {
			continue
		}
		annotation, present := w.Annotations[work.SpecHashAnnotation]
		if !configs.Matches(annotation, present, a.Status.ConfigReferences) {
			return underWay(addon.MessageConfigsMismatch)
		}
		if !ready(w) {
			return underWay(addon.MessageWorkNotReady)
		}
		if why := rollingOut(w); why != "" {
			return underWay(addon.MessageWorkNotReady + ": " + why)
		}
	}
	return waiting(addon.ReasonCompleted, addon.MessageCompleted)
}

// underWay is an add-on whose works are not as wanted yet.
func underWay(message string) metav1.Condition {
	return metav1.Condition{Type: addon.ConditionProgressing, Status: metav1.ConditionTrue, Reason: addon.ReasonProgressing, Message: message}
}

// waiting is an add-on that makes no progress: it is done, or waits for others.
func waiting(reason, message string) metav1.Condition {
	return metav1.Condition{Type: addon.ConditionProgressing, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// ready reports whether a work, as it is now, is applied and available.
func ready(w *workv1.ManifestWork) bool {
	for _, which := range []string{work.ConditionApplied, work.ConditionAvailable} {
		c := meta.FindStatusCondition(w.Status.Conditions, which)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != w.Generation {
			return false
		}
	}
	return true
}

// rollingOut says which workload of a work does not run as it was applied last, and why;
// empty when all do. That pods of the former version still run does not count. Where the
// cluster's agent says more than the numbers, its words are taken.
//
// Nothing is known of a workload of which no numbers are reported: then, as with
// upstream, it is enough that it is there.
func rollingOut(w *workv1.ManifestWork) string {
	for i := range w.Status.ResourceStatus.Manifests {
		m := &w.Status.ResourceStatus.Manifests[i]
		s, known := health.Rollout(m)
		if !known || s.State == rolloutstatus.Done {
			continue
		}
		if why := health.Moving(w); why != "" {
			return why
		}
		return fmt.Sprintf("%s %s/%s: %s", m.ResourceMeta.Kind, m.ResourceMeta.Namespace, m.ResourceMeta.Name, s.Why)
	}
	return ""
}

// reported is what the cache keeps of a work's status: the conditions, and what is
// reported of workloads that do not run yet as they were applied last.
func reported(status workv1.ManifestWorkStatus) workv1.ManifestWorkStatus {
	out := workcache.Conditions(status)
	for i := range status.ResourceStatus.Manifests {
		m := &status.ResourceStatus.Manifests[i]
		if s, known := health.Rollout(m); known && s.State != rolloutstatus.Done {
			out.ResourceStatus.Manifests = append(out.ResourceStatus.Manifests,
				workv1.ManifestCondition{ResourceMeta: m.ResourceMeta, StatusFeedbacks: m.StatusFeedbacks})
		}
	}
	if len(out.ResourceStatus.Manifests) == 0 {
		return out
	}
	if why := meta.FindStatusCondition(status.Conditions, work.ConditionProgressing); why != nil {
		meta.FindStatusCondition(out.Conditions, work.ConditionProgressing).Message = why.Message
	}
	return out
}
