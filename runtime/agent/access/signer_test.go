package access_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// playSigner signs what is approved of this fixture's requests, as f.signer says.
func (f *fixture) playSigner(ctx context.Context) {
	for ctx.Err() == nil {
		list := &certificatesv1.CertificateSigningRequestList{}
		if err := f.List(ctx, list, client.MatchingLabels{muster.AccessClusterLabel: f.hub}); err != nil {
			continue
		}
		for i := range list.Items {
			r := &list.Items[i]
			f.mu.Lock()
			signer := f.signer
			f.mu.Unlock()
			if signer != nil && len(r.Status.Certificate) == 0 && isApproved(r) && !hasCondition(r, certificatesv1.CertificateFailed) {
				_ = signer(r) // a conflict is tried again
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(25 * time.Millisecond):
		}
	}
}

func (f *fixture) setSigner(signer func(*certificatesv1.CertificateSigningRequest) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signer = signer
}

func isApproved(r *certificatesv1.CertificateSigningRequest) bool {
	return hasCondition(r, certificatesv1.CertificateApproved)
}

func hasCondition(r *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == kind })
}

// sign signs as Kubernetes does: with the request's subject, for the lifetime that
// it asks for, dated back by five minutes.
func (f *fixture) sign(r *certificatesv1.CertificateSigningRequest) error {
	return f.signWith(r, func(*x509.Certificate) {})
}

// signWith signs what change has made of the template.
func (f *fixture) signWith(r *certificatesv1.CertificateSigningRequest, change func(*x509.Certificate)) error {
	block, _ := pem.Decode(r.Spec.Request)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0xabcdef), Subject: csr.Subject, NotBefore: now.Add(-5 * time.Minute), PublicKey: csr.PublicKey,
		NotAfter:    now.Add(time.Duration(*r.Spec.ExpirationSeconds) * time.Second),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	change(template)
	issuer := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, template.PublicKey, ca)
	if err != nil {
		return err
	}
	r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return f.SubResource("status").Update(f.ctx, r)
}

// fail is a signer that refuses.
func (f *fixture) fail(r *certificatesv1.CertificateSigningRequest) error {
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "No", Message: "no such key here",
		LastUpdateTime: metav1.Now(),
	})
	return f.SubResource("status").Update(f.ctx, r)
}
