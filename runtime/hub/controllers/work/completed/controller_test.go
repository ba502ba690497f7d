package completed

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

var env testenv.Env

func TestMain(m *testing.M) { testenv.Main(m, &env) }

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

func TestCompleteWorkGoesWhenItsTimeIsOver(t *testing.T) {
	ctx, c := context.Background(), env.Client()
	namespace := testenv.Namespace(t, c)
	mw := func(name string, ttl int64) *workv1.ManifestWork {
		mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		mw.Spec.DeleteOption = &workv1.DeleteOption{TTLSecondsAfterFinished: ptr.To(ttl)}
		if err := c.Create(ctx, mw); err != nil {
			t.Fatal(err)
		}
		mw.Status.Conditions = []metav1.Condition{{Type: work.ConditionComplete, Status: metav1.ConditionTrue, Reason: work.ReasonRulesAggregated, LastTransitionTime: metav1.Now()}}
		if err := c.Status().Update(ctx, mw); err != nil {
			t.Fatal(err)
		}
		return mw
	}
	now, hour, day := mw("now", 0), mw("hour", 3600), mw("day", 86400)
	gone := func(mw *workv1.ManifestWork) {
		t.Helper()
		testkit.Eventually(t, func() error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(mw), mw); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the work %s is still there (%v)", mw.Name, err)
			}
			return nil
		})
	}
	clk := clocktesting.NewFakePassiveClock(time.Now().Add(2 * time.Hour))
	env.StartManager(t, func(m manager.Manager) error { return NewController(m.GetClient(), clk).Register(m) })
	gone(now)
	gone(hour)
	if err := c.Get(ctx, client.ObjectKeyFromObject(day), day); err != nil {
		t.Error(err)
	}
}
