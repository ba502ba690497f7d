package addon_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
)

// renew renews the lease of an add-on at the time of the fixture's clock.
func (f *fixture) renew(l *coordinationv1.Lease) {
	f.t.Helper()
	now := metav1.NewMicroTime(f.clock.Now())
	l.Spec.RenewTime = &now
	if l.ResourceVersion == "" {
		f.must(f.Create(f.ctx, l))
		return
	}
	f.must(f.Update(f.ctx, l))
}

func TestHealthFollowsTheLease(t *testing.T) {
	f := newFixture(t)
	writes := &testkit.Writes{}
	f.wrapHub = writes.Wrap
	f.start()
	m := f.addOn("a")
	f.condition(m, "Available", "Unknown", "ManagedClusterAddOnLeaseNotFound", "The status of a add-on is unknown.")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: f.install, Name: "a"}}
	f.renew(lease)
	f.condition(m, "Available", "True", "ManagedClusterAddOnLeaseUpdated", "a add-on is available.")
	// Renewals in time cost nothing on the hub.
	if n := writes.During(func() {
		for range 10 {
			f.step(time.Minute)
			f.renew(lease)
		}
		time.Sleep(100 * time.Millisecond)
	}); n != 0 {
		t.Errorf("10 renewals led to %d writes on the hub", n)
	}
	f.condition(m, "Available", "True", "ManagedClusterAddOnLeaseUpdated", "")
	f.step(301 * time.Second)
	f.condition(m, "Available", "False", "ManagedClusterAddOnLeaseUpdateStopped", "a add-on is not available.")
	f.renew(lease)
	f.condition(m, "Available", "True", "ManagedClusterAddOnLeaseUpdated", "")
	lease.Spec.RenewTime = nil
	f.must(f.Update(f.ctx, lease))
	f.condition(m, "Available", "False", "ManagedClusterAddOnLeaseUpdateStopped", "")
	f.must(f.Delete(f.ctx, lease))
	f.condition(m, "Available", "Unknown", "ManagedClusterAddOnLeaseNotFound", "")
}

// A library that panics about one add-on ends neither the agent nor its other add-ons.
func TestPanicAboutOneAddOnStopsNoOther(t *testing.T) {
	f := newFixture(t)
	var broken atomic.Bool
	broken.Store(true)
	f.wrapHub = func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if broken.Load() && r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/managedclusteraddons/a") {
				panic("odd add-on")
			}
			return next.RoundTrip(r)
		})
	}
	f.start()
	odd, other := f.addOn("a"), f.addOn("b")
	f.condition(other, "Available", "Unknown", "ManagedClusterAddOnLeaseNotFound", "")
	broken.Store(false)
	f.step(time.Minute) // the longest pause after a failure
	f.condition(odd, "Available", "Unknown", "ManagedClusterAddOnLeaseNotFound", "")
}

func TestHealthThatOthersReportIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	m := f.addOn("a")
	f.says(m, func(m *addonv1beta1.ManagedClusterAddOn) {
		m.Status.HealthCheck.Mode = addonv1beta1.HealthCheckModeCustomized
	})
	f.start()
	other := f.addOn("b")
	f.condition(other, "Available", "Unknown", "ManagedClusterAddOnLeaseNotFound", "")
	f.says(m, func(m *addonv1beta1.ManagedClusterAddOn) {
		if meta.FindStatusCondition(m.Status.Conditions, "Available") != nil {
			t.Error("the agent told the health of an add-on whose health others tell")
		}
	})
}

// While the hub takes the cluster for lost, it overwrites what the agent reports. The
// agent insists every half a minute, and not at each of the hub's writes.
func TestAgentAndHubDoNotTakeTurns(t *testing.T) {
	f := started(t)
	m := f.addOn("a")
	f.condition(m, "Available", "Unknown", "ManagedClusterAddOnLeaseNotFound", "")
	lost := func() {
		f.says(m, func(m *addonv1beta1.ManagedClusterAddOn) {
			meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
				Type: "Available", Status: metav1.ConditionUnknown, Reason: "ManagedClusterLeaseUpdateStopped", Message: "Registration agent stopped updating its lease.",
			})
		})
	}
	lost()
	f.stays(func() error { return f.reason(m, "ManagedClusterLeaseUpdateStopped") })
	f.step(31 * time.Second)
	f.condition(m, "Available", "Unknown", "ManagedClusterAddOnLeaseNotFound", "")
	lost()
	f.stays(func() error { return f.reason(m, "ManagedClusterLeaseUpdateStopped") })
}

func TestOlderHubIsServed(t *testing.T) {
	f := newFixture(t)
	f.wrapHub = func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Path, "/apis/addon.open-cluster-management.io/v1beta1") {
				r = r.Clone(r.Context())
				r.URL.Path = strings.Replace(r.URL.Path, "/v1beta1", "/v9", 1)
			}
			return next.RoundTrip(r)
		})
	}
	f.start()
	m := f.addOn("a", forHub("u", "g"))
	f.stored("a-hub-kubeconfig", nil)
	f.condition(m, "ClusterCertificateRotated", "True", "ClientCertificateUpdated", "")
	f.condition(m, "Available", "Unknown", "ManagedClusterAddOnLeaseNotFound", "")
	if d := m.Status.Registrations[0].KubeClient.Driver; d != "csr" {
		t.Errorf("the driver is %q", d)
	}
}
