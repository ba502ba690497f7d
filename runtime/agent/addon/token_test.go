package addon_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
)

// prepare makes the service account of an add-on, and announces it.
func (f *fixture) prepare(m *addonv1beta1.ManagedClusterAddOn) *corev1.ServiceAccount {
	f.t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.hub, Name: m.Name + "-agent"}}
	f.must(f.Create(f.ctx, sa))
	f.announce(m, metav1.ConditionTrue, registration.TokenInfrastructureMessage(f.hub, sa.Name, sa.UID))
	return sa
}

func (f *fixture) announce(m *addonv1beta1.ManagedClusterAddOn, status metav1.ConditionStatus, message string) {
	f.t.Helper()
	f.says(m, func(m *addonv1beta1.ManagedClusterAddOn) {
		meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
			Type: "TokenInfrastructureReady", Status: status, Reason: "TokenInfrastructureReady", Message: message,
		})
	})
}

func TestAddOnGetsAToken(t *testing.T) {
	f := newFixture(t)
	f.driver = registration.DriverToken
	f.start()
	m := f.addOn("a", forHub("u", "g"), signedBy("example.com/x"))
	f.stored("a-example.com-x-client-cert", nil)
	f.eventually(func() error {
		f.must(f.Get(f.ctx, client.ObjectKeyFromObject(m), m))
		if k := m.Status.Registrations[0].KubeClient; k.Driver != "token" || k.Subject.User != registration.ServiceAccountUser(f.hub, "a") || len(k.Subject.Groups) > 0 {
			return fmt.Errorf("the hub is told %+v", k)
		}
		return nil
	})
	f.announce(m, metav1.ConditionFalse, "Failed to apply token infrastructure: no")
	f.condition(m, "TokenRefreshed", "False", "TokenCreationFailed", "Failed to create token: ")
	f.announce(m, metav1.ConditionTrue, "ServiceAccount is ready")
	f.condition(m, "TokenRefreshed", "False", "TokenCreationFailed", "has no UID")
	if f.secret(f.install, "a-hub-kubeconfig") != nil {
		t.Error("there is a token before there is a service account")
	}

	sa := f.prepare(m)
	s := f.stored("a-hub-kubeconfig", nil)
	if got := slices.Sorted(maps.Keys(s.Data)); !slices.Equal(got, []string{"cluster-name", "kubeconfig", "token"}) {
		t.Errorf("the Secret has %v", got)
	}
	config, err := clientcmd.Load(s.Data["kubeconfig"])
	f.must(err)
	if a := config.AuthInfos["default-auth"]; a == nil || a.TokenFile != "token" || a.Token != "" || a.ClientKey != "" {
		t.Errorf("kubeconfig\n%s", s.Data["kubeconfig"])
	}
	token, err := registration.ParseToken(s.Data["token"])
	f.must(err)
	f.must(token.Check(sa.UID, time.Now()))
	f.condition(m, "TokenRefreshed", "True", "AddonTokenRefreshed", "Addon token refreshed, expires at "+token.Expires.UTC().Format(time.RFC3339))
	f.condition(m, "ClusterCertificateRotated", "True", "ClientCertificateUpdated", "")
	if got := len(f.requests("a")); got != 1 {
		t.Errorf("%d certificate requests, want that for the signer", got)
	}
	if secret := string(s.Data["token"]); strings.Contains(f.logged(), secret) || strings.Contains(fmt.Sprint(m.Status), secret) {
		t.Error("the token was told")
	}

	// A service account that was deleted and made once more has another UID.
	f.must(f.Delete(f.ctx, sa))
	sa = f.prepare(m)
	s = f.stored("a-hub-kubeconfig", func(s *corev1.Secret) error {
		token, err := registration.ParseToken(s.Data["token"])
		if err != nil {
			return err
		}
		return token.Check(sa.UID, time.Now())
	})
	// A fifth of its life before the end there is another one.
	f.step(time.Duration(0.79 * float64(registration.DefaultTokenExpiration) * float64(time.Second)))
	f.stays(func() error {
		if another(s)(f.secret(f.install, s.Name)) == nil {
			return errors.New("it was refreshed early")
		}
		return nil
	})
	f.step(time.Duration(0.02 * float64(registration.DefaultTokenExpiration) * float64(time.Second)))
	f.stored("a-hub-kubeconfig", another(s))
}

// Switching from one driver to the other, and back, leaves nothing of the former one.
func TestDriverIsSwitched(t *testing.T) {
	f := started(t)
	m := f.addOn("a", forHub("u", "g"))
	f.stored("a-hub-kubeconfig", nil)
	f.stop()
	f.driver = registration.DriverToken
	f.start()
	f.prepare(m)
	f.stored("a-hub-kubeconfig", func(s *corev1.Secret) error {
		if got := slices.Sorted(maps.Keys(s.Data)); !slices.Equal(got, []string{"cluster-name", "kubeconfig", "token"}) {
			return fmt.Errorf("the Secret has %v", got)
		}
		return nil
	})
	f.condition(m, "TokenRefreshed", "True", "AddonTokenRefreshed", "")
	f.stop()
	f.driver = registration.DriverCSR
	f.start()
	f.stored("a-hub-kubeconfig", func(s *corev1.Secret) error {
		if got := slices.Sorted(maps.Keys(s.Data)); !slices.Equal(got, []string{"cluster-name", "kubeconfig", "tls.crt", "tls.key"}) {
			return fmt.Errorf("the Secret has %v", got)
		}
		return nil
	})
	f.eventually(func() error {
		f.must(f.Get(f.ctx, client.ObjectKeyFromObject(m), m))
		if k := m.Status.Registrations[0].KubeClient; k.Driver != "csr" || k.Subject.User != "" {
			return fmt.Errorf("the hub is told %+v", k)
		}
		if meta.FindStatusCondition(m.Status.Conditions, "TokenRefreshed") != nil {
			return errors.New("there is a condition of tokens")
		}
		return nil
	})
}
