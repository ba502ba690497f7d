package memcluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// requester is who makes all requests, as the clusters know nobody.
const requester = "system:anonymous"

// authority signs the certificates of users of all clusters.
var authority = sync.OnceValues(func() (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "managed-cluster"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return ca, key
})

// sign notes who has made a certificate request, and signs it once it is approved. One that
// can't be signed stays as it is.
func sign(o *unstructured.Unstructured) {
	if err := unstructured.SetNestedField(o.Object, requester, "spec", "username"); err != nil {
		return
	}
	r := &certificatesv1.CertificateSigningRequest{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, r); err != nil {
		return
	}
	approved := func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved
	}
	block, _ := pem.Decode(r.Spec.Request)
	if len(r.Status.Certificate) > 0 || block == nil || !slices.ContainsFunc(r.Status.Conditions, approved) {
		return
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return
	}
	ca, key := authority()
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: request.Subject, NotBefore: now.Add(-time.Minute),
		NotAfter: now.Add(time.Duration(ptr.Deref(r.Spec.ExpirationSeconds, 3600)) * time.Second),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, request.PublicKey, key)
	if err != nil {
		return
	}
	r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&r.Status); err == nil {
		o.Object["status"] = status
	}
}
