package decide

import (
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/failure"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/memory"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// IsComplete reports whether a work has done what it is for. Then it stays as it
// is until there is no rule any more that says so.
func IsComplete(mw *workv1.ManifestWork, manifests []*manifest.Manifest) bool {
	c := meta.FindStatusCondition(mw.Status.Conditions, work.ConditionComplete)
	if c == nil || c.Status != metav1.ConditionTrue {
		return false
	}
	return c.Reason != work.ReasonRulesAggregated ||
		slices.ContainsFunc(manifests, func(m *manifest.Manifest) bool { return m.HasRule(work.ConditionComplete) })
}

// Watched are the objects whose changes concern a work: those of its
// manifests, those that it once made and that are being deleted, and those whose
// lack keeps a manifest from being applied: a namespace, or a kind's definition.
func Watched(
	manifests []*manifest.Manifest, known map[manifest.Key]memory.Object, made []workv1.AppliedManifestResourceMeta,
) map[manifest.Key]schema.GroupVersionResource {
	out := map[manifest.Key]schema.GroupVersionResource{}
	for _, r := range made {
		gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
		out[manifest.KeyOf(gvr, r.Namespace, r.Name)] = gvr
	}
	for _, m := range manifests {
		if m.UnknownKind { // until the cluster serves it
			gvr := apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
			out[manifest.KeyOf(gvr, "", "")] = gvr
		}
		if m.Err != nil {
			continue
		}
		last, ok := known[m.Key()]
		if ok && last.Hidden {
			continue // the work must not notice its changes
		}
		out[m.Key()] = m.GVR
		if ok && m.Meta.Namespace != "" && apierrors.IsNotFound(last.Err) {
			gvr := corev1.SchemeGroupVersion.WithResource("namespaces")
			out[manifest.KeyOf(gvr, "", m.Meta.Namespace)] = gvr
		}
	}
	return out
}

// RequeueAfter is when to look at a work again although nothing changes, at the
// latest after resync.
func RequeueAfter(resync time.Duration, known []memory.Object) time.Duration {
	again := resync
	for _, o := range known {
		for _, pause := range []time.Duration{o.Paused, o.Waits} {
			if pause > 0 {
				again = min(again, pause)
			}
		}
		if o.Hidden || failure.IsDenied(o.Err) {
			again = min(again, failure.DeniedRetry)
		}
	}
	return again
}

// RetriedRarely reports whether a quick retry would not help.
func RetriedRarely(err error) bool { return failure.IsDenied(err) || failure.IsConflict(err) }
