package access_test

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
)

const hub = "0123abcd"

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	return key
}

func hashOf(t *testing.T, key crypto.Signer) string {
	t.Helper()
	hash, err := access.KeyHash(key.Public())
	testkit.Must(t, err)
	return hash
}

func request(t *testing.T, key crypto.Signer, template x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	testkit.Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestCommonNameFitsIntoACertificate(t *testing.T) {
	for _, user := range []string{"jo", strings.Repeat("x", 300), strings.Repeat("ü", 100), "system:admin", "a:b"} {
		got := access.CommonName(hub, user)
		if len(got) > 64 || !strings.HasPrefix(got, "muster:"+hub+":") {
			t.Errorf("user %q has the common name %q", user, got)
		}
	}
	long := strings.Repeat("x", 70)
	if access.CommonName(hub, long+"1") == access.CommonName(hub, long+"2") {
		t.Error("two long users have one common name")
	}
}

func TestRequestOfTheClientIsTaken(t *testing.T) {
	key := newKey(t)
	data, err := access.NewRequest(key, hub, "jo@example.com")
	testkit.Must(t, err)
	got, err := access.CheckRequest(data, hub, "jo@example.com")
	testkit.Must(t, err)
	if want := hashOf(t, key); got != want {
		t.Errorf("key hash %q, want %q", got, want)
	}
}

func TestOtherRequestsAreRefused(t *testing.T) {
	key := newKey(t)
	good := access.Subject(hub, "jo", hashOf(t, key))
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	testkit.Must(t, err)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	testkit.Must(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	testkit.Must(t, err)
	with := func(change func(*pkix.Name)) []byte {
		subject := good
		subject.Organization = append([]string(nil), good.Organization...)
		change(&subject)
		return request(t, key, x509.CertificateRequest{Subject: subject})
	}
	forged := with(func(*pkix.Name) {})
	block, _ := pem.Decode(forged)
	block.Bytes[len(block.Bytes)-1] ^= 1
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":              {nil, "not PEM"},
		"another block":        {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}), "PRIVATE KEY"},
		"two blocks":           {bytes.Repeat(with(func(*pkix.Name) {}), 2), "must be alone"},
		"no request":           {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")}), "can't be read"},
		"a forged signature":   {pem.EncodeToMemory(block), "signature"},
		"a system name":        {with(func(n *pkix.Name) { n.CommonName = "system:kube-controller-manager" }), "subject"},
		"another user":         {with(func(n *pkix.Name) { n.CommonName = access.CommonName(hub, "al") }), "subject"},
		"another hub":          {with(func(n *pkix.Name) { n.CommonName = access.CommonName("ffffffff", "jo") }), "subject"},
		"system:masters":       {with(func(n *pkix.Name) { n.Organization = []string{"system:masters"} }), "subject"},
		"a second group":       {with(func(n *pkix.Name) { n.Organization = append(n.Organization, "system:masters") }), "subject"},
		"another key's group":  {with(func(n *pkix.Name) { n.Organization = []string{access.KeyGroup(strings.Repeat("0", 32))} }), "subject"},
		"no group":             {with(func(n *pkix.Name) { n.Organization = nil }), "subject"},
		"more in the subject":  {with(func(n *pkix.Name) { n.Country = []string{"FR"} }), "subject"},
		"a host name":          {request(t, key, x509.CertificateRequest{Subject: good, DNSNames: []string{"x"}}), "further names"},
		"a short RSA key":      {request(t, weak, x509.CertificateRequest{Subject: access.Subject(hub, "jo", hashOf(t, weak))}), "2048 bits"},
		"an Edwards key":       {request(t, edwards, x509.CertificateRequest{Subject: access.Subject(hub, "jo", hashOf(t, edwards))}), "ECDSA P-256"},
		"a curve of 521 bits":  {request(t, curve, x509.CertificateRequest{Subject: access.Subject(hub, "jo", hashOf(t, curve))}), "P-521"},
		"the wish to be an CA": {request(t, key, x509.CertificateRequest{Subject: good, ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Value: []byte{0x30, 3, 1, 1, 0xff}}}}), "extensions"},
	} {
		if _, err := access.CheckRequest(tc.data, hub, "jo"); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, tc.want)
		}
	}
}

func TestSealedTokenOpensForItsKeyAndRequestOnly(t *testing.T) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	testkit.Must(t, err)
	other, err := ecdh.X25519().GenerateKey(rand.Reader)
	testkit.Must(t, err)
	sealed, err := access.Seal(key.PublicKey().Bytes(), []byte("secret"), "uid-1")
	testkit.Must(t, err)
	if bytes.Contains(sealed, []byte("secret")) {
		t.Error("the token is readable")
	}
	if got, err := access.Open(key, sealed, "uid-1"); err != nil || string(got) != "secret" {
		t.Errorf("opened: %q, %v", got, err)
	}
	if _, err := access.Open(other, sealed, "uid-1"); err == nil {
		t.Error("another key opens it")
	}
	if _, err := access.Open(key, sealed, "uid-2"); err == nil {
		t.Error("it opens for another request")
	}
	if _, err := access.Seal([]byte("short"), []byte("x"), ""); err == nil {
		t.Error("a short key is taken")
	}
}

func TestKeyThatTokensAreSealedTo(t *testing.T) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	testkit.Must(t, err)
	public := key.PublicKey().Bytes()
	hash, err := access.CheckSealTo(public, nil)
	testkit.Must(t, err)
	if again, err := access.CheckSealTo(public, nil); err != nil || again != hash || len(hash) != 32 {
		t.Errorf("the hash is %q, then %q (%v)", hash, again, err)
	}
	// The same 32 bytes as an Edwards key, the nearest that a certificate's can be.
	if edwards, err := access.KeyHash(ed25519.PublicKey(public)); err != nil || edwards == hash {
		t.Errorf("two kinds of keys have the hash %q (%v)", hash, err)
	}
	csrKey := newKey(t)
	x := csrKey.X.FillBytes(make([]byte, 32))
	csr, err := access.NewRequest(csrKey, hub, "jo")
	testkit.Must(t, err)
	if _, err := access.CheckSealTo(public, csr); err != nil {
		t.Error(err)
	}
	for name, tc := range map[string]struct {
		key, request []byte
		want         string
	}{
		"too short":              {public[:31], nil, "not an X25519 public key"},
		"zero":                   {make([]byte, 32), nil, "nothing is secret"},
		"one":                    {append([]byte{1}, make([]byte, 31)...), nil, "nothing is secret"},
		"the certificate's key":  {x, csr, "for tokens"},
		"a long one with a tail": {append(bytes.Clone(public), 0), nil, "not an X25519 public key"},
	} {
		if _, err := access.CheckSealTo(tc.key, tc.request); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, tc.want)
		}
	}
}
