package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/rolloutstatus"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/health"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
)

// progress says in the condition Progressing whether the works of an add-on have the
// configurations that count, and are done with them. It does so for the add-ons of other
// managers, too. Before configurations have been decided about, which follows at once,
// there is nothing to say. written are works that a pass has just written, which count
// before the cache has them.
func (c *Controller) progress(
	ctx context.Context, a *v1alpha1.ManagedClusterAddOn, written ...*workv1.ManifestWork,
) error {
	definition, err := addons.Definition(ctx, c.client, a.Name)
	if err != nil || definition == nil || configs.SelfManaged(definition) ||
		meta.FindStatusCondition(a.Status.Conditions, addon.ConditionConfigured) == nil {
		return err
	}
	all, err := c.worksOf(ctx, a)
	if err == nil {
		for i, w := range all {
			at := slices.IndexFunc(written, func(x *workv1.ManifestWork) bool { return x.UID == w.UID })
			if at >= 0 {
				all[i] = written[at]
			}
		}
		putProgress(&a.Status, progressing(a, all), c.clock.Now())
	}
	return err
}

// putProgress puts the condition into a status. When it is completed, what was wanted is
// what was applied.
//
// Rollouts count from the time of the condition: how long an add-on may take, and how
// long it has been well. Upstream's moves only with the condition's status, so an
// add-on that is done with a new configuration before anybody has seen it at work, or
// whose first manifests are applied at once, has been well since an earlier time.
// Here the time moves with the reason, too, and with what was applied.
func putProgress(status *v1alpha1.ManagedClusterAddOnStatus, condition metav1.Condition, now time.Time) {
	have := meta.FindStatusCondition(status.Conditions, addon.ConditionProgressing)
	moved := have != nil && have.Reason != condition.Reason
	if condition.Reason == addon.ReasonCompleted {
		for i := range status.ConfigReferences {
			r := &status.ConfigReferences[i]
			moved = moved || !apiequality.Semantic.DeepEqual(r.LastAppliedConfig, r.DesiredConfig)
			r.LastAppliedConfig = r.DesiredConfig.DeepCopy()
		}
	}
	condition.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(&status.Conditions, condition)
	if moved {
		meta.FindStatusCondition(status.Conditions, addon.ConditionProgressing).LastTransitionTime = condition.LastTransitionTime
	}
}

// worksOf are the works of an add-on in a cluster, and of a hosted one those in its
// hosting cluster, too. Nobody may change them.
func (c *Controller) worksOf(ctx context.Context, a *v1alpha1.ManagedClusterAddOn) ([]*workv1.ManifestWork, error) {
	own, err := c.listWorks(ctx, a.Namespace, a.Name, "")
	if host := a.Annotations[addon.HostingClusterAnnotation]; err == nil && host != "" {
		var hosted []*workv1.ManifestWork
		hosted, err = c.listWorks(ctx, host, a.Name, a.Namespace)
		own = append(own, hosted...)
	}
	if err != nil {
		return nil, fmt.Errorf("list the works of the add-on %s of the cluster %s: %w", a.Name, a.Namespace, err)
	}
	return own, nil
}

// listWorks lists the works of an add-on in a namespace: those of the namespace's own
// add-on, or those that are hosted there for another namespace's.
func (c *Controller) listWorks(ctx context.Context, namespace, name, hostedFor string) ([]*workv1.ManifestWork, error) {
	list := &workv1.ManifestWorkList{}
	err := c.works.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{cluster.AddOnNameLabel: name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	var out []*workv1.ManifestWork
	for i := range list.Items {
		if list.Items[i].Labels[addon.AddOnNamespaceLabel] == hostedFor {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// progressChanged selects changes of all that the condition depends on. How the add-on
// and its agent are is not among it.
func progressChanged(was, is *v1alpha1.ManagedClusterAddOn) bool {
	const host = addon.HostingClusterAnnotation
	if was.Generation != is.Generation || was.Annotations[host] != is.Annotations[host] {
		return true
	}
	before, after := was.Status.DeepCopy(), is.Status.DeepCopy()
	for _, status := range []*v1alpha1.ManagedClusterAddOnStatus{before, after} {
		kept := status.Conditions[:0]
		for _, condition := range status.Conditions {
			switch condition.Type {
			case addon.ConditionProgressing, addon.ConditionManifestApplied, addon.ConditionHostingManifestApplied:
				kept = append(kept, condition)
			}
		}
		*status = v1alpha1.ManagedClusterAddOnStatus{Conditions: kept, SupportedConfigs: status.SupportedConfigs, ConfigReferences: status.ConfigReferences}
	}
	return !apiequality.Semantic.DeepEqual(before, after)
}

// progressing is the condition Progressing of an add-on with its works.
func progressing(a *v1alpha1.ManagedClusterAddOn, works []*workv1.ManifestWork) metav1.Condition {
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
// A workload without reported numbers counts as rolled out once it is there, as with
// upstream.
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
