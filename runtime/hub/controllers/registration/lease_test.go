package registration_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration"
)

const (
	accepted  = "HubAcceptedManagedCluster"
	available = "ManagedClusterConditionAvailable"

	stopped     = "ManagedClusterLeaseUpdateStopped"
	stoppedText = "Registration agent stopped updating its lease."
)

func (w *world) lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "managed-cluster-lease", Labels: map[string]string{"open-cluster-management.io/cluster-name": w.name}}}
}

// renew makes the lease, or renews it, at a time.
func (w *world) renew(at time.Time) {
	w.Helper()
	l := w.lease()
	err := w.Get(context.Background(), client.ObjectKeyFromObject(l), l)
	l.Spec.RenewTime = &metav1.MicroTime{Time: at}
	if apierrors.IsNotFound(err) {
		w.Make(l)
		return
	}
	w.Must(err)
	w.Must(w.Update(context.Background(), l))
}

func TestOnlyAClusterThatWasJudgedGetsALease(t *testing.T) {
	for name, x := range map[string]struct {
		status metav1.ConditionStatus
		want   bool
	}{
		"never judged":        {"", false},
		"accepted":            {metav1.ConditionTrue, true},
		"denied":              {metav1.ConditionFalse, true},
		"accepted in trouble": {metav1.ConditionUnknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			if x.status != "" {
				w.report(accepted, x.status)
			}
			w.reconcile(leasesAtNoon(w.Client))
			l := w.lease()
			err := w.Get(context.Background(), client.ObjectKeyFromObject(l), l)
			if !x.want {
				if !apierrors.IsNotFound(err) {
					t.Fatalf("there is a lease (%v)", err)
				}
				return
			}
			w.Must(err)
			if l.Labels["open-cluster-management.io/cluster-name"] != w.name || ptr.Deref(l.Spec.HolderIdentity, "") != "managed-cluster-lease" ||
				!l.Spec.RenewTime.Time.Equal(noon) || l.Spec.LeaseDurationSeconds != nil {
				t.Errorf("the lease has the labels %v and is %+v", l.Labels, l.Spec)
			}
		})
	}
}

// leasesAtNoon is the controller by a clock that stands still.
func leasesAtNoon(c client.Client) *registration.Leases {
	return registration.NewLeases(c, c, events.NewFakeRecorder(9), clocktesting.NewFakePassiveClock(noon))
}

func TestALeaseIsLookedAtAgainWhenItExpires(t *testing.T) {
	for name, x := range map[string]struct {
		seconds int32
		age     time.Duration
		again   time.Duration
		expired bool
	}{
		"fresh, of the default pace": {0, 20 * time.Second, 280 * time.Second, false},
		"fresh, of another pace":     {10, 20 * time.Second, 30 * time.Second, false},
		"just expired":               {10, 50 * time.Second, 50 * time.Second, true},
		"long expired":               {0, time.Hour, 300 * time.Second, true},
		"from the future":            {10, -time.Minute, 110 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(mc *clusterv1.ManagedCluster) { mc.Spec.LeaseDurationSeconds = x.seconds })
			w.report(accepted, metav1.ConditionTrue)
			w.report(available, metav1.ConditionTrue)
			w.renew(noon.Add(-x.age))
			recorder := events.NewFakeRecorder(9)
			c, writes := env.Counting(t)
			controller := registration.NewLeases(c, c, recorder, clocktesting.NewFakePassiveClock(noon))
			for range 2 {
				if r := w.reconcile(controller); r.RequeueAfter != x.again {
					t.Errorf("looked at again after %s, want %s", r.RequeueAfter, x.again)
				}
			}
			want := map[bool]int{true: 1}[x.expired]
			if int(writes.Count()) != want || len(recorder.Events) != want {
				t.Errorf("%d writes and %d events, want %d of each", writes.Count(), len(recorder.Events), want)
			}
			if x.expired {
				w.mustSay(available, metav1.ConditionUnknown, stopped, stoppedText)
			} else {
				w.mustSay(available, metav1.ConditionTrue, "Test", "said the test")
			}
		})
	}
}

// behind is a client whose leases are an hour old.
type behind struct{ client.Client }

func (c behind) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	err := c.Client.Get(ctx, key, o, options...)
	if lease, ok := o.(*coordinationv1.Lease); ok && err == nil {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: noon.Add(-time.Hour)}
	}
	return err
}

// A cache may have an older renewal than the server, which keeps some in memory.
func TestSilenceIsWhatTheServerSays(t *testing.T) {
	w := newWorld(t, nil)
	w.report(accepted, metav1.ConditionTrue)
	w.report(available, metav1.ConditionTrue)
	w.renew(noon.Add(-time.Minute))
	clk := clocktesting.NewFakePassiveClock(noon)
	controller := registration.NewLeases(behind{w.Client}, w.Client, events.NewFakeRecorder(9), clk)
	if r := w.reconcile(controller); r.RequeueAfter != 4*time.Minute {
		t.Errorf("looked at again after %s, want 4m", r.RequeueAfter)
	}
	w.mustSay(available, metav1.ConditionTrue, "Test", "said the test")
}

func TestAClusterThatGoesWithoutALeaseIsUnknownAtOnce(t *testing.T) {
	w := newWorld(t, func(mc *clusterv1.ManagedCluster) { mc.Finalizers = []string{holding} })
	w.report(accepted, metav1.ConditionTrue)
	w.report(available, metav1.ConditionTrue)
	w.Must(w.Delete(context.Background(), w.cluster()))
	w.reconcile(leasesAtNoon(w.Client))
	w.mustSay(available, metav1.ConditionUnknown, stopped, stoppedText)
	if err := w.Get(context.Background(), client.ObjectKeyFromObject(w.lease()), w.lease()); !apierrors.IsNotFound(err) {
		t.Errorf("there is a lease (%v)", err)
	}
}

func TestTheHubNeverDeclaresAClusterAvailable(t *testing.T) {
	w := newWorld(t, nil)
	w.report(accepted, metav1.ConditionTrue)
	w.report(available, metav1.ConditionUnknown)
	w.renew(noon)
	c, writes := env.Counting(t)
	w.reconcile(leasesAtNoon(c))
	if writes.Count() != 0 {
		t.Errorf("%d writes for a cluster whose agent is back", writes.Count())
	}
}

func TestSilenceIsReportedInTheClustersNamespace(t *testing.T) {
	run(t, func(m manager.Manager) error {
		recorder := m.GetEventRecorder("registration-controller")
		return registration.NewLeases(m.GetClient(), m.GetClient(), recorder, clock.RealClock{}).Register(m)
	})
	w := newWorld(t, nil)
	w.report(accepted, metav1.ConditionTrue)
	// A deleted lease is re-created.
	uids := map[any]bool{}
	for range 2 {
		l := w.lease()
		testkit.Eventually(t, func() error { return w.Get(context.Background(), client.ObjectKeyFromObject(l), l) })
		uids[l.UID] = true
		w.Must(w.Delete(context.Background(), l))
	}
	if len(uids) != 2 {
		t.Fatalf("the leases were %v, want two", uids)
	}
	testkit.Eventually(t, func() error { return w.Get(context.Background(), client.ObjectKeyFromObject(w.lease()), w.lease()) })
	w.renew(time.Now().Add(-time.Hour))
	w.untilItSays(available, metav1.ConditionUnknown, stopped, stoppedText)
	testkit.Eventually(t, func() error {
		list := &eventsv1.EventList{}
		if err := w.List(context.Background(), list, client.InNamespace(w.name)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Type == corev1.EventTypeWarning && e.Reason == "AvailableUnknown" && e.Action == "AvailableUnknown" && e.ReportingController == "registration-controller" &&
				e.Note == "The "+w.name+" is successfully imported. However, the connection check from the managed cluster to the hub cluster has failed" {
				return nil
			}
		}
		return fmt.Errorf("no such event among %+v", list.Items)
	})
}

// While the hub is away no agent can renew its lease, so a lease that has run out by then
// says nothing. One that is renewed with a time that is over does.
func TestALeaseThatRanOutWhileTheHubWasAwayCountsFromItsStart(t *testing.T) {
	left := func() *world {
		w := newWorld(t, nil)
		w.report(accepted, metav1.ConditionTrue)
		w.report(available, metav1.ConditionTrue)
		w.renew(noon.Add(-time.Hour))
		return w
	}
	silent, other := left(), left()
	clk := clocktesting.NewFakePassiveClock(noon)
	var controller *registration.Leases
	run(t, func(m manager.Manager) error {
		controller = registration.NewLeases(m.GetClient(), m.GetClient(), events.NewFakeRecorder(9), clk)
		return controller.Register(m)
	})
	renewals := 0
	testkit.Eventually(t, func() error { // the first may come before the controller watches
		renewals++
		other.renew(noon.Add(-time.Hour + time.Duration(renewals)*time.Second))
		return says(other.cluster(), available, metav1.ConditionUnknown, stopped, stoppedText)
	})
	if r := silent.reconcile(controller); r.RequeueAfter != 300*time.Second {
		t.Errorf("the lease is looked at again after %s", r.RequeueAfter)
	}
	silent.mustSay(available, metav1.ConditionTrue, "Test", "said the test")
	clk.SetTime(noon.Add(299 * time.Second))
	if r := silent.reconcile(controller); r.RequeueAfter != time.Second {
		t.Errorf("a second before the end the lease is looked at again after %s", r.RequeueAfter)
	}
	silent.mustSay(available, metav1.ConditionTrue, "Test", "said the test")
	clk.SetTime(noon.Add(300 * time.Second))
	silent.reconcile(controller)
	silent.mustSay(available, metav1.ConditionUnknown, stopped, stoppedText)
}

// A lease that was restored without its label is out of the controllers' sight.
func TestALeaseWithoutTheLabelIsLabelled(t *testing.T) {
	w := newWorld(t, nil)
	w.report(accepted, metav1.ConditionTrue)
	l := w.lease()
	l.Labels = nil
	l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-time.Hour)}
	w.Make(l)
	run(t, func(m manager.Manager) error {
		c := m.GetClient()
		return registration.NewLeases(c, c, events.NewFakeRecorder(10), clock.RealClock{}).Register(m)
	})
	w.untilItSays(available, metav1.ConditionUnknown, stopped, stoppedText)
	if err := w.Get(context.Background(), client.ObjectKeyFromObject(l), l); err != nil || l.Labels["open-cluster-management.io/cluster-name"] != w.name {
		t.Errorf("labels %v (%v)", l.Labels, err)
	}
}
