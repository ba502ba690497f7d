package registration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration"
)

const synced = "ManagedClusterConditionClockSynced"

func (w *world) isSynced() error {
	w.Helper()
	return says(w.cluster(), synced, metav1.ConditionTrue, "ManagedClusterClockSynced",
		"The clock of the managed cluster is synced with the hub.")
}

func (w *world) untilSynced() {
	w.Helper()
	w.Eventually(w.isSynced)
}

func (w *world) untilOutOfSync() {
	w.Helper()
	w.untilItSays(synced, metav1.ConditionFalse, "ManagedClusterClockOutOfSync",
		"The clock of hub and agent is out of sync. This may cause the Unknown status and affect agent functionalities.")
}

// startClockSync runs the controller, and has the agent of a cluster renew its
// lease until the controller hears it. A renewal before that is nobody's.
func startClockSync(w *world) *clocktesting.FakePassiveClock {
	w.Helper()
	clk := clocktesting.NewFakePassiveClock(noon)
	run(w, func(m manager.Manager) error { return registration.NewClocks(m.GetClient(), clk).Register(m) })
	at := noon
	w.Eventually(func() error {
		at = at.Add(time.Microsecond)
		w.renew(at)
		if meta.FindStatusCondition(w.cluster().Status.Conditions, synced) == nil {
			return errors.New("the controller has heard of no renewal")
		}
		return nil
	})
	return clk
}

func TestEachRenewalReportsTheAgentsClock(t *testing.T) {
	w := newWorld(t, func(mc *clusterv1.ManagedCluster) { mc.Spec.LeaseDurationSeconds = 10 })
	startClockSync(w)
	w.untilSynced()
	w.renew(noon.Add(-50 * time.Second))
	w.untilOutOfSync()
	w.renew(noon.Add(49 * time.Second))
	w.untilSynced()
	w.renew(noon.Add(50 * time.Second))
	w.untilOutOfSync()
	w.Merge(w.cluster(), `{"metadata":{"annotations":{"registration.open-cluster-management.io/skip-clock-sync-check":"true"}}}`)
	renewals := 0
	w.Eventually(func() error { // the controller may hear of a renewal before the annotation
		renewals++
		w.renew(noon.Add(time.Hour + time.Duration(renewals)*time.Second))
		return w.isSynced()
	})
}

func TestWhatIsNoRenewalSaysNothingOfTheClock(t *testing.T) {
	created, touched, sentinel := newWorld(t, nil), newWorld(t, nil), newWorld(t, nil)
	sentinel.renew(noon)
	clk := startClockSync(touched)
	touched.untilSynced()
	// Leases are handled in their order. Before the clock is set, the last of the
	// renewals that startClockSync has made has to be handled.
	sentinel.renew(noon.Add(time.Microsecond))
	sentinel.untilSynced()

	created.renew(noon.Add(-time.Hour))
	clk.SetTime(noon.Add(time.Hour))
	l := touched.lease()
	touched.Merge(l, `{"metadata":{"annotations":{"example.org/touched":"true"}}}`)
	other := touched.lease()
	other.Name = "another"
	other.Spec.RenewTime = &metav1.MicroTime{Time: noon}
	touched.Make(other)
	other.Spec.RenewTime = &metav1.MicroTime{Time: noon.Add(time.Minute)}
	touched.Must(touched.Update(context.Background(), other))
	// What follows is handled after those.
	sentinel.renew(noon.Add(time.Second))
	sentinel.untilOutOfSync()

	if c := meta.FindStatusCondition(created.cluster().Status.Conditions, synced); c != nil {
		t.Errorf("a lease that was made says %+v", c)
	}
	touched.untilSynced()
}
