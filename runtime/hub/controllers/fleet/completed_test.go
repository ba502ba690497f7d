package fleet_test

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
	fleetcontrollers "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet"
)

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
	env.StartManager(t, func(m manager.Manager) error { return fleetcontrollers.NewCompleted(m.GetClient(), clk).Register(m) })
	gone(now)
	gone(hour)
	if err := c.Get(ctx, client.ObjectKeyFromObject(day), day); err != nil {
		t.Error(err)
	}
}
