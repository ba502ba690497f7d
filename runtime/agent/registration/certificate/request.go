// Package certificate gets an agent its certificate from the hub, and says when
// to renew it. It reads and creates CertificateSigningRequests; storing the
// certificate is up to the caller.
//
// The Manager of k8s.io/client-go/util/certificate, which kubelets use, gives a
// request up after 15 minutes and makes another one. A cluster may wait for days
// until the hub's people accept it, and each new request counts against the
// limit on requests per agent. The Manager also follows the real clock only, and
// has no way to continue a request with another client.
package certificate

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// MinExpiration is the shortest lifetime, in seconds, that may be asked for.
const MinExpiration = 3600

// Wanted is a certificate to ask for.
type Wanted struct {
	// GenerateName and Labels are those of the request.
	GenerateName string
	Labels       map[string]string
	Subject      pkix.Name
	DNSNames     []string
	// Signer is the hub's for its own API by default.
	Signer string
	// Expiration is the lifetime to ask for, in seconds; 0 leaves it to the signer.
	Expiration int32
}

// New makes a key and the request for a client certificate over it.
func New(w Wanted) (keyPEM []byte, _ *certificatesv1.CertificateSigningRequest, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the key: %w", err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: w.Subject, DNSNames: w.DNSNames}, key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate request: %w", err)
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: w.GenerateName, Labels: w.Labels},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: cmp.Or(w.Signer, certificatesv1.KubeAPIServerClientSignerName),
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
		},
	}
	if w.Expiration > 0 {
		csr.Spec.ExpirationSeconds = ptr.To(w.Expiration)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), csr, nil
}

// newRequest makes a key and the request for the certificate of an agent over it.
func newRequest(names identity.Names, expiration int32) (keyPEM []byte, _ *certificatesv1.CertificateSigningRequest, err error) {
	return New(Wanted{
		GenerateName: names.Cluster + "-",
		Labels:       map[string]string{cluster.NameLabel: names.Cluster},
		Subject:      pkix.Name{CommonName: cluster.CommonName(names.Cluster, names.Agent), Organization: identity.Organizations(names.Cluster)},
		Expiration:   expiration,
	})
}

// RenewAt is when to renew a certificate: when 20 to 25 percent of its life
// remain. chance, from 0 to 1, says where in between, so that the agents of a
// fleet that started together don't renew together.
func RenewAt(notBefore, notAfter time.Time, chance float64) time.Time {
	remaining := float64(notAfter.Sub(notBefore)) * (0.2 + 0.05*chance)
	return notAfter.Add(-time.Duration(remaining))
}
