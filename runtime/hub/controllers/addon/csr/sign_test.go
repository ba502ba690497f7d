package csr

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func newKey(t testing.TB, kind string) (key crypto.Signer, keyPEM []byte) {
	t.Helper()
	var err error
	var der []byte
	form := "PRIVATE KEY"
	switch {
	case strings.HasPrefix(kind, "RSA"):
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case strings.HasPrefix(kind, "EC"):
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	testkit.Must(t, err)
	switch kind {
	case "RSA PKCS#1":
		form, der = "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key.(*rsa.PrivateKey))
	case "EC SEC 1":
		form = "EC PRIVATE KEY"
		der, err = x509.MarshalECPrivateKey(key.(*ecdsa.PrivateKey))
	default:
		der, err = x509.MarshalPKCS8PrivateKey(key)
	}
	testkit.Must(t, err)
	return key, pemOf(form, der)
}

func newCA(t testing.TB, key crypto.Signer, change func(*x509.Certificate)) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the add-on's CA"}, NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	testkit.Must(t, err)
	return pemOf("CERTIFICATE", der)
}

func requestFor(t testing.TB, template x509.CertificateRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, _ := newKey(t, "EC")
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	testkit.Must(t, err)
	return &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Request: pemOf("CERTIFICATE REQUEST", der)}}
}

func TestCertificatesAreSignedWithEveryKindOfKey(t *testing.T) {
	for _, kind := range []string{"RSA PKCS#1", "RSA PKCS#8", "EC SEC 1", "EC PKCS#8", "Ed25519"} {
		t.Run(kind, func(t *testing.T) {
			key, keyPEM := newKey(t, kind)
			caPEM := newCA(t, key, nil)
			a, err := parseAuthority(append(caPEM, "what follows is the chain"...), keyPEM)
			testkit.Must(t, err)
			subject := pkix.Name{CommonName: "u", Organization: []string{"g"}, OrganizationalUnit: []string{"ou"}}
			got, err := a.sign(requestFor(t, x509.CertificateRequest{Subject: subject, DNSNames: []string{"a.addon.open-cluster-management.io"}}), noon)
			testkit.Must(t, err)
			block, rest := pem.Decode(got)
			if block == nil || len(rest) > 0 {
				t.Fatalf("not one certificate: %s", got)
			}
			c, err := x509.ParseCertificate(block.Bytes)
			testkit.Must(t, err)
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(caPEM)
			for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
				_, err := c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: noon, KeyUsages: []x509.ExtKeyUsage{usage}, DNSName: "a.addon.open-cluster-management.io"})
				testkit.Must(t, err)
			}
			if c.Subject.String() != subject.String() || c.IsCA || len(c.ExtKeyUsage) != 2 || c.NotAfter.Sub(c.NotBefore) != 24*time.Hour || c.NotBefore.After(noon) {
				t.Errorf("got the subject %s, from %s to %s, CA %v, usages %v", c.Subject, c.NotBefore, c.NotAfter, c.IsCA, c.ExtKeyUsage)
			}
		})
	}
}

func TestACertificateEndsWithItsAuthority(t *testing.T) {
	key, keyPEM := newKey(t, "EC")
	end := noon.Add(time.Hour)
	a, err := parseAuthority(newCA(t, key, func(c *x509.Certificate) { c.NotAfter = end }), keyPEM)
	testkit.Must(t, err)
	request := requestFor(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: "u"}})
	got, err := a.sign(request, noon)
	testkit.Must(t, err)
	block, _ := pem.Decode(got)
	c, err := x509.ParseCertificate(block.Bytes)
	testkit.Must(t, err)
	if !c.NotAfter.Equal(end) {
		t.Errorf("it ends at %s", c.NotAfter)
	}
	if _, err := a.sign(request, end); err == nil || !strings.Contains(err.Error(), "its tls.crt expired at 2026-01-01T13:00:00Z") {
		t.Errorf("an expired authority: %v", err)
	}
}

func TestABrokenAuthorityIsExplained(t *testing.T) {
	key, keyPEM := newKey(t, "EC")
	_, otherPEM := newKey(t, "RSA PKCS#1")
	good := newCA(t, key, nil)
	for name, x := range map[string]struct {
		cert, key []byte
		want      string
	}{
		"nothing":        {nil, nil, "its tls.crt is not a PEM block of type CERTIFICATE"},
		"a key as both":  {keyPEM, keyPEM, "its tls.crt is not a PEM block of type CERTIFICATE"},
		"no certificate": {pemOf("CERTIFICATE", []byte("x")), keyPEM, "its tls.crt is not a certificate"},
		"no key":         {good, []byte("secret text"), "its tls.key is not PEM"},
		"not a key":      {good, pemOf("PRIVATE KEY", []byte("secret text")), "its tls.key is no private key"},
		"another key":    {good, otherPEM, "its tls.key is not the key of its tls.crt"},
		"no authority":   {newCA(t, key, func(c *x509.Certificate) { c.IsCA = false }), keyPEM, "is not the certificate of an authority"},
		"may not sign":   {newCA(t, key, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }), keyPEM, "may not sign certificates"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseAuthority(x.cert, x.key)
			if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "secret text") {
				t.Errorf("got %v, want %q", err, x.want)
			}
		})
	}
}
