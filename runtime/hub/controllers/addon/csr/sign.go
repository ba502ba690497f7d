package csr

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	wire "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
)

// lifetime is how long a certificate lives at most, backdated how far it reaches back,
// for clocks that are behind.
const (
	lifetime  = 24 * time.Hour
	backdated = 5 * time.Minute
)

// authority is an add-on's own.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// parseAuthority reads the content of a Secret: the first certificate of tls.crt, and
// its key in any form that Kubernetes' tools write. Errors don't hold the key.
func parseAuthority(certPEM, keyPEM []byte) (a authority, err error) {
	block, _ := pem.Decode(certPEM)
	if block == nil || block.Type != "CERTIFICATE" {
		return a, errors.New("its tls.crt is not a PEM block of type CERTIFICATE")
	}
	if a.certificate, err = x509.ParseCertificate(block.Bytes); err != nil {
		return a, fmt.Errorf("its tls.crt is not a certificate: %w", err)
	}
	block, _ = pem.Decode(keyPEM)
	if block == nil {
		return a, errors.New("its tls.key is not PEM")
	}
	if a.key, err = parseKey(block.Bytes); err != nil {
		return a, err
	}
	public, ok := a.key.Public().(interface{ Equal(crypto.PublicKey) bool })
	switch c := a.certificate; {
	case !ok || !public.Equal(c.PublicKey):
		return a, errors.New("its tls.key is not the key of its tls.crt")
	case c.BasicConstraintsValid && !c.IsCA:
		return a, errors.New("its tls.crt is not the certificate of an authority (basic constraints CA:FALSE)")
	case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
		return a, errors.New("its tls.crt may not sign certificates (key usage)")
	}
	return a, nil
}

func parseKey(der []byte) (crypto.Signer, error) {
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if signer, ok := key.(crypto.Signer); ok && err == nil {
		return signer, nil
	}
	return nil, errors.New("its tls.key is no private key: RSA and EC keys are read, in PKCS#1, SEC 1 or PKCS#8, without a password")
}

// sign makes the certificate that a request asks for, as PEM.
func (a authority) sign(r *certificatesv1.CertificateSigningRequest, now time.Time) ([]byte, error) {
	parsed, err := wire.ParseRequest(r)
	if err != nil {
		return nil, err
	}
	if !now.Before(a.certificate.NotAfter) {
		return nil, fmt.Errorf("its tls.crt expired at %s", a.certificate.NotAfter.UTC().Format(time.RFC3339))
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	from := now.Add(-backdated)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: parsed.Subject, DNSNames: parsed.DNSNames,
		NotBefore: from, NotAfter: from.Add(lifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if template.NotAfter.After(a.certificate.NotAfter) {
		template.NotAfter = a.certificate.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, parsed.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
