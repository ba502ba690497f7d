package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// CertificateRequest makes a key and a certificate request for a subject, both
// PEM-encoded.
func CertificateRequest(t testing.TB, commonName string, organizations ...string) (keyPEM, requestPEM []byte) {
	t.Helper()
	return CertificateRequestFor(t, pkix.Name{CommonName: commonName, Organization: organizations})
}

// CertificateRequestFor is CertificateRequest for any subject.
func CertificateRequestFor(t testing.TB, subject pkix.Name) (keyPEM, requestPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	Must(t, err)
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})
}

// Serving makes a certificate authority, and a certificate of a server on this machine's
// loopback by it.
func Serving(t testing.TB) (caPEM []byte, server tls.Certificate) {
	t.Helper()
	sign := func(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) (*x509.Certificate, []byte) {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
		Must(t, err)
		certificate, err := x509.ParseCertificate(der)
		Must(t, err)
		return certificate, der
	}
	template := func(name string) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		Must(t, err)
		return &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}, key
	}
	ca, caKey := template("authority")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	ca, caDER := sign(ca, ca, caKey, caKey)
	leaf, leafKey := template("server")
	leaf.IPAddresses, leaf.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	_, leafDER := sign(leaf, ca, leafKey, caKey)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
		tls.Certificate{Certificate: [][]byte{leafDER, caDER}, PrivateKey: leafKey}
}
