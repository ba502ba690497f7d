package registration_test

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
)

func TestConditionsOfCredentials(t *testing.T) {
	from, to := time.Unix(1000, 0).UTC(), time.Unix(4600, 0).UTC()
	certificate := registration.Registration{Type: "kubeClient", Driver: "csr"}
	token := registration.Registration{Type: "kubeClient", Driver: "token"}
	custom := registration.Registration{Type: "customSigner", Signer: "x.io/s"}
	for name, x := range map[string]struct{ got, want metav1.Condition }{
		"issued": {registration.Rotated(from, to), metav1.Condition{Type: "ClusterCertificateRotated", Status: "True", Reason: "ClientCertificateUpdated",
			Message: "client certificate rotated starting from 1970-01-01 00:16:40 +0000 UTC to 1970-01-01 01:16:40 +0000 UTC"}},
		"token issued": {registration.Refreshed(to), metav1.Condition{Type: "TokenRefreshed", Status: "True", Reason: "AddonTokenRefreshed",
			Message: "Addon token refreshed, expires at 1970-01-01T01:16:40Z"}},
		"not asked for": {certificate.FailedBy(errors.New("no"), true), metav1.Condition{Type: "ClusterCertificateRotated", Status: "False", Reason: "ClientCertificateUpdateFailed",
			Message: "Failed to create CSR no"}},
		"not issued": {custom.FailedBy(errors.New("no"), false), metav1.Condition{Type: "ClusterCertificateRotated", Status: "False", Reason: "ClientCertificateUpdateFailed",
			Message: "Failed to rotated client certificate no"}},
		"no token": {token.FailedBy(errors.New("no"), false), metav1.Condition{Type: "TokenRefreshed", Status: "False", Reason: "TokenCreationFailed",
			Message: "Failed to create token: no"}},
	} {
		if x.got != x.want {
			t.Errorf("%s: got %+v, want %+v", name, x.got, x.want)
		}
	}
}

func TestAvailable(t *testing.T) {
	now := time.Unix(10_000, 0)
	renewed := func(ago time.Duration) *coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-ago))
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &at}}
	}
	for name, x := range map[string]struct {
		lease           *coordinationv1.Lease
		hosting         string
		status          metav1.ConditionStatus
		reason, message string
		left            time.Duration // 0 is forever
	}{
		"renewed now":       {renewed(0), "", "True", "ManagedClusterAddOnLeaseUpdated", "a add-on is available.", 5 * time.Minute},
		"just before":       {renewed(299 * time.Second), "", "True", "ManagedClusterAddOnLeaseUpdated", "a add-on is available.", time.Second},
		"five minutes ago":  {renewed(300 * time.Second), "", "False", "ManagedClusterAddOnLeaseUpdateStopped", "a add-on is not available.", 0},
		"in the future":     {renewed(-time.Minute), "", "True", "ManagedClusterAddOnLeaseUpdated", "a add-on is available.", 6 * time.Minute},
		"never renewed":     {&coordinationv1.Lease{}, "", "False", "ManagedClusterAddOnLeaseUpdateStopped", "a add-on is not available.", 0},
		"no lease":          {nil, "", "Unknown", "ManagedClusterAddOnLeaseNotFound", "The status of a add-on is unknown.", 0},
		"no lease, hosted":  {nil, "h1", "Unknown", "ManagedClusterAddOnLeaseNotFound", `The status of a add-on is unknown. No lease found on hosting cluster "h1"; verify it matches the cluster where this managed cluster's klusterlet actually runs.`, 0},
		"stopped, hosted":   {renewed(time.Hour), "h1", "False", "ManagedClusterAddOnLeaseUpdateStopped", "a add-on is not available.", 0},
		"available, hosted": {renewed(0), "h1", "True", "ManagedClusterAddOnLeaseUpdated", "a add-on is available.", 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			got, until := registration.Available("a", x.hosting, x.lease, now)
			if want := (metav1.Condition{Type: "Available", Status: x.status, Reason: x.reason, Message: x.message}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if until.IsZero() != (x.left == 0) || x.left != 0 && !until.Equal(now.Add(x.left)) {
				t.Errorf("until %s", until)
			}
		})
	}
}
