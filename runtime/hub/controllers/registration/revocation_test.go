package registration_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration"
)

// madeBy is a certificate request that a token's holder made, with annotations
// as admission leaves them.
func (w *world) madeBy(token string, annotations map[string]string) *certificatesv1.CertificateSigningRequest {
	w.Helper()
	config := env.Config("muster-test-token")
	config.Impersonate = rest.ImpersonationConfig{UserName: cluster.TokenUser(token), Groups: []string{"system:masters"}}
	r, _ := testfleet.CertificateRequest(w, w.name, "a")
	r.Annotations = annotations
	w.Must(env.ClientFor(w, config).Create(context.Background(), r))
	w.Cleanup(func() { w.Remove(r) })
	return r
}

func TestRequestsOfATokenThatWasRevokedMeanwhileGoAtTheStart(t *testing.T) {
	w := newWorld(t, nil)
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: cluster.TokenSecretPrefix + "there1"},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": "there1", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
	}
	w.Make(token)
	of := func(uid string, expires time.Time) map[string]string {
		a := map[string]string{cluster.RequestTokenAnnotation: uid}
		if !expires.IsZero() {
			a[cluster.RequestExpiryAnnotation] = expires.Format(time.RFC3339)
		}
		return a
	}
	requests := map[string]struct {
		request *certificatesv1.CertificateSigningRequest
		gone    bool
	}{
		"of a token that is gone":          {w.madeBy("gone01", of("x", time.Time{})), true},
		"of one that would still be good":  {w.madeBy("gone02", of("x", noon.Add(time.Hour))), true},
		"of one that was made again":       {w.madeBy("there1", of("another", time.Time{})), true},
		"of one that is there":             {w.madeBy("there1", of(string(token.UID), time.Time{})), false},
		"of one that expired":              {w.madeBy("gone03", of("x", noon.Add(-time.Hour))), false},
		"of one whose requests outlive it": {w.madeBy("gone04", nil), false},
		"of nobody with a token, whatever it says": {func() *certificatesv1.CertificateSigningRequest {
			r, _ := testfleet.CertificateRequest(t, w.name, "b")
			r.Annotations = of("x", time.Time{})
			w.Make(r)
			return r
		}(), false},
	}
	decided := w.madeBy("gone05", of("x", time.Time{}))
	w.Must(testfleet.Approve(context.Background(), testfleet.Clientset(t, env.Config("muster-test")), decided))

	run(t, func(m manager.Manager) error {
		return registration.NewRevocation(m.GetClient(), m.GetAPIReader(), clocktesting.NewFakePassiveClock(noon)).Register(m)
	})
	state := func(r *certificatesv1.CertificateSigningRequest) bool {
		err := w.Get(context.Background(), client.ObjectKeyFromObject(r), &certificatesv1.CertificateSigningRequest{})
		w.Must(client.IgnoreNotFound(err))
		return apierrors.IsNotFound(err)
	}
	testkit.Eventually(t, func() error {
		for name, x := range requests {
			if x.gone && !state(x.request) {
				return fmt.Errorf("the request %s is still there", name)
			}
		}
		return nil
	})
	for name, x := range requests {
		if !x.gone && state(x.request) {
			t.Errorf("the request %s is gone", name)
		}
	}
	if state(decided) {
		t.Error("a request that was decided is gone")
	}
}
