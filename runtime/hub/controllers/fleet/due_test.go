package fleet

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestDue(t *testing.T) {
	finished := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	complete := func(change func(*workv1.ManifestWork)) *workv1.ManifestWork {
		mw := &workv1.ManifestWork{Spec: workv1.ManifestWorkSpec{DeleteOption: &workv1.DeleteOption{TTLSecondsAfterFinished: ptr.To[int64](90)}}}
		mw.Status.Conditions = []metav1.Condition{{Type: work.ConditionComplete, Status: metav1.ConditionTrue, LastTransitionTime: finished}}
		change(mw)
		return mw
	}
	for name, x := range map[string]struct {
		change func(*workv1.ManifestWork)
		want   time.Duration // after it was complete; negative for never
	}{
		"complete":         {func(*workv1.ManifestWork) {}, 90 * time.Second},
		"at once":          {func(mw *workv1.ManifestWork) { mw.Spec.DeleteOption.TTLSecondsAfterFinished = ptr.To[int64](0) }, 0},
		"not complete":     {func(mw *workv1.ManifestWork) { mw.Status.Conditions[0].Status = metav1.ConditionFalse }, -1},
		"nothing known":    {func(mw *workv1.ManifestWork) { mw.Status.Conditions = nil }, -1},
		"no time given":    {func(mw *workv1.ManifestWork) { mw.Spec.DeleteOption.TTLSecondsAfterFinished = nil }, -1},
		"no option given":  {func(mw *workv1.ManifestWork) { mw.Spec.DeleteOption = nil }, -1},
		"of a replica set": {func(mw *workv1.ManifestWork) { mw.Labels = map[string]string{work.ReplicaSetLabel: "a.b"} }, -1},
		"being deleted":    {func(mw *workv1.ManifestWork) { mw.DeletionTimestamp = ptr.To(metav1.Now()) }, -1},
	} {
		when, has := due(complete(x.change))
		if has != (x.want >= 0) || has && when.Sub(finished.Time) != x.want {
			t.Errorf("%s: got %s after it was complete (%v), want %s", name, when.Sub(finished.Time), has, x.want)
		}
	}
}
