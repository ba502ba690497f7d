package addon

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/certificate"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// certificate takes a certificate request one step further, and returns the
// certificate when the hub has signed it.
func (a *agent) certificate(ctx context.Context, w wanted, s *slot) (credential, error) {
	s.needsRequests = true
	known, err := a.requests.use(w.AddOn)
	if err != nil {
		return credential{}, err
	}
	if !known {
		return credential{}, errWaiting
	}
	if s.request != "" {
		own, err := a.requests.find(ctx, s.request)
		switch {
		case err != nil:
			return credential{}, err
		case own == nil: // the hub has removed it
			s.request, s.keyPEM = "", nil
		case certificate.Has(own, certificatesv1.CertificateDenied),
			certificate.Has(own, certificatesv1.CertificateFailed):
			err := fmt.Errorf("the hub turned down the certificate request %s (%s), "+
				"and another one follows when it is gone: kubectl delete csr %[1]s",
				own.Name, certificate.Why(own))
			return credential{}, problem{error: err, condition: w.FailedBy(err, false), pause: untilNews}
		case !certificate.Has(own, certificatesv1.CertificateApproved), len(own.Status.Certificate) == 0:
			return credential{}, errWaiting
		default:
			keyPEM := s.keyPEM
			s.request, s.keyPEM = "", nil
			return w.certificateOf(own.Status.Certificate, keyPEM, a.Clock.Now())
		}
	}
	if a.requests.countOf(w.AddOn) >= cluster.MaxPendingRequests {
		err := fmt.Errorf("the hub has %d or more certificate requests of the add-on: "+
			"delete those that are of no use: kubectl delete csr -l %s=%s,%s=%s",
			cluster.MaxPendingRequests, cluster.NameLabel, w.Cluster, cluster.AddOnNameLabel, w.AddOn)
		return credential{}, problem{error: err, condition: w.Failed(cluster.MessageTooManyRequests), pause: untilNews}
	}
	if err := a.request(ctx, w, s); err != nil {
		return credential{}, err
	}
	return credential{}, errWaiting
}

// request asks the hub for a certificate.
func (a *agent) request(ctx context.Context, w wanted, s *slot) error {
	keyPEM, csr, err := certificate.New(certificate.Wanted{
		GenerateName: registration.RequestPrefix(w.Cluster, w.AddOn),
		Labels:       registration.RequestLabels(w.Cluster, w.AddOn),
		Subject:      w.Subject(), DNSNames: []string{registration.DNSName(w.AddOn)}, Signer: w.Signer,
	})
	if err == nil {
		err = a.hub.Create(ctx, csr)
	}
	if err != nil {
		return problem{error: fmt.Errorf("create a certificate request: %w", err), condition: w.FailedBy(err, true)}
	}
	s.request, s.keyPEM = csr.Name, keyPEM
	a.requests.add(w.AddOn, csr.Name)
	a.Log.Info("asked the hub for a certificate of an add-on",
		"addon", w.AddOn, "request", csr.Name, "signer", w.Signer, "user", w.User)
	return nil
}

// token asks the hub for a token of the add-on's service account.
func (a *agent) token(ctx context.Context, m *addonv1beta1.ManagedClusterAddOn, w wanted) (credential, error) {
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = m.Namespace, registration.ServiceAccount(m.Name)
	request := &authenticationv1.TokenRequest{
		// A newer API server refuses another service account of that name by it.
		ObjectMeta: metav1.ObjectMeta{UID: w.account},
		Spec:       authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(a.TokenExpiration.Seconds()))},
	}
	if err := a.hub.SubResource("token").Create(ctx, account, request); err != nil {
		return credential{}, err
	}
	token := []byte(request.Status.Token)
	if len(token) == 0 {
		return credential{}, errors.New("the hub issued none")
	}
	t, err := registration.ParseToken(token)
	if err == nil {
		err = t.Check(w.account, a.Clock.Now())
	}
	if err != nil {
		return credential{}, fmt.Errorf("what the hub issued cannot be used: %w", err)
	}
	return credential{token: token}, nil
}
