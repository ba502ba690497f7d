package works

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Applied says whether the works of a place are applied; known is false as long as
// the agent has not reported on all of them. One that has failed counts more than the
// others, while upstream goes by the last one that it has looked at.
func Applied(p Place, have []*workv1.ManifestWork) (c metav1.Condition, known bool) {
	c.Type = addon.ConditionManifestApplied
	if p.Host != "" {
		c.Type = addon.ConditionHostingManifestApplied
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, addon.ReasonManifestsApplied, addon.MessageNoManifest
	known = true
	for _, w := range have {
		if _, deploys := p.index(w.Name); !deploys || !p.Owns(w) {
			continue
		}
		c.Message = addon.MessageManifestsApplied
		switch applied := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied); {
		case applied == nil || applied.Status == metav1.ConditionUnknown:
			known = false
		case applied.Status == metav1.ConditionFalse:
			c.Status, c.Reason = metav1.ConditionFalse, addon.ReasonManifestsFailed
			c.Message = fmt.Sprintf("%s: the work %s: %s", addon.MessageManifestsFailed, w.Name, why(w, *applied))
			return c, true
		}
	}
	return c, known
}

// why says why a work could not be applied: what its first object says that could not
// be, if the report has one.
func why(w *workv1.ManifestWork, applied metav1.Condition) string {
	for _, m := range w.Status.ResourceStatus.Manifests {
		if c := meta.FindStatusCondition(m.Conditions, work.ConditionApplied); c != nil && c.Status == metav1.ConditionFalse && c.Message != "" {
			return c.Message
		}
	}
	return applied.Message
}
