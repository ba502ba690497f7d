package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

var (
	start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	names = identity.Names{Cluster: "c1", Agent: "abcde"}
	hub   = identity.Endpoint{Cluster: "hub", Server: "https://hub:6443", CAData: []byte("ca")}
)

// pair makes a certificate, valid for an hour from start, and its key.
func pair(t *testing.T, subject pkix.Name) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: subject, NotBefore: start, NotAfter: start.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

func subject() pkix.Name {
	return pkix.Name{CommonName: cluster.CommonName("c1", "abcde"), Organization: identity.Organizations("c1")}
}

func good(t *testing.T) identity.Identity {
	certPEM, keyPEM := pair(t, subject())
	return identity.Identity{Names: names, Hub: hub, CertPEM: certPEM, KeyPEM: keyPEM}
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name      string
		change    func(id *identity.Identity, bootstrap *identity.Endpoint)
		after     time.Duration
		wantError string
	}{
		{name: "a whole identity for the bootstrap kubeconfig's hub", change: func(*identity.Identity, *identity.Endpoint) {}},
		{name: "nothing", change: func(id *identity.Identity, _ *identity.Endpoint) { *id = identity.Identity{} }, wantError: "no certificate yet"},
		{name: "no kubeconfig", change: func(id *identity.Identity, _ *identity.Endpoint) { id.Hub = identity.Endpoint{} }, wantError: "no kubeconfig"},
		{name: "no key", change: func(id *identity.Identity, _ *identity.Endpoint) { id.KeyPEM = nil }, wantError: "key is missing"},
		{name: "no certificate", change: func(id *identity.Identity, _ *identity.Endpoint) { id.CertPEM = nil }, wantError: "certificate is missing"},
		{name: "garbage for a certificate", change: func(id *identity.Identity, _ *identity.Endpoint) { id.CertPEM = []byte("x") }, wantError: "not in PEM form"},
		{name: "another pair's key", change: func(id *identity.Identity, _ *identity.Endpoint) { _, id.KeyPEM = pair(t, subject()) }, wantError: "private key does not match"},
		{name: "another server", change: func(_ *identity.Identity, b *identity.Endpoint) { b.Server = "https://other:6443" }, wantError: "address is now https://other:6443"},
		{name: "another proxy", change: func(_ *identity.Identity, b *identity.Endpoint) { b.ProxyURL = "http://proxy" }, wantError: "proxy"},
		{name: "another certificate authority", change: func(_ *identity.Identity, b *identity.Endpoint) { b.CAData = []byte("ca2") }, wantError: "certificate authority"},
		{name: "another name for the hub in the kubeconfig", change: func(_ *identity.Identity, b *identity.Endpoint) { b.Cluster = "hub2" }, wantError: `is now "hub2" and was "hub"`},
		{name: "another cluster's certificate", change: func(id *identity.Identity, _ *identity.Endpoint) {
			id.CertPEM, id.KeyPEM = pair(t, pkix.Name{CommonName: cluster.CommonName("c2", "abcde")})
		}, wantError: "c2:abcde"},
		{name: "another agent's certificate", change: func(id *identity.Identity, _ *identity.Endpoint) {
			id.CertPEM, id.KeyPEM = pair(t, pkix.Name{CommonName: cluster.CommonName("c1", "fghij")})
		}, wantError: "c1:fghij"},
		{name: "just before it expires", change: func(*identity.Identity, *identity.Endpoint) {}, after: time.Hour - time.Second},
		{name: "expired", change: func(*identity.Identity, *identity.Endpoint) {}, after: time.Hour, wantError: "expired at 2030-01-01T01:00:00Z"},
		{name: "before it begins, as clocks differ", change: func(*identity.Identity, *identity.Endpoint) {}, after: -time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			id, bootstrap := good(t), hub
			tc.change(&id, &bootstrap)
			err := id.Check(names, &bootstrap, start.Add(tc.after))
			if tc.wantError == "" && err != nil || tc.wantError != "" && (err == nil || !strings.Contains(err.Error(), tc.wantError)) {
				t.Errorf("got %v, want an error with %q", err, tc.wantError)
			}
		})
	}
}

func TestCheckWithoutBootstrapKubeconfigDoesNotCompareHubs(t *testing.T) {
	if err := good(t).Check(names, nil, start); err != nil {
		t.Error(err)
	}
}

func TestSecretKeepsTheIdentity(t *testing.T) {
	id := good(t)
	id.Hub.ProxyURL, id.Hub.TLSServerName = "http://proxy:3128", "hub.example.com"
	data, err := id.SecretData()
	if err != nil {
		t.Fatal(err)
	}
	back := identity.FromSecret(data)
	if !back.Equal(id) || back.Hub.TLSServerName != id.Hub.TLSServerName {
		t.Errorf("got %+v, want %+v", back, id)
	}
	if strings.Contains(string(data[cluster.KubeconfigKey]), "insecure") {
		t.Errorf("the kubeconfig speaks of insecure connections:\n%s", data[cluster.KubeconfigKey])
	}
}

func TestSecretOfAnAgentWithoutCertificateHasNamesOnly(t *testing.T) {
	data, err := identity.Identity{Names: names}.SecretData()
	if err != nil {
		t.Fatal(err)
	}
	if len(data) != 2 || string(data["cluster-name"]) != "c1" || string(data["agent-name"]) != "abcde" {
		t.Errorf("got %v", data)
	}
}

func TestHasSubject(t *testing.T) {
	for _, tc := range []struct {
		name    string
		subject pkix.Name
		want    bool
	}{
		{"as asked for", subject(), true},
		{"groups in another order", pkix.Name{CommonName: cluster.CommonName("c1", "abcde"), Organization: []string{cluster.ManagedClustersGroup, cluster.Group("c1")}}, true},
		{"a group too few", pkix.Name{CommonName: cluster.CommonName("c1", "abcde"), Organization: []string{cluster.Group("c1")}}, false},
		{"a group too many", pkix.Name{CommonName: cluster.CommonName("c1", "abcde"), Organization: append(identity.Organizations("c1"), "x")}, false},
		{"an organizational unit", pkix.Name{CommonName: cluster.CommonName("c1", "abcde"), Organization: identity.Organizations("c1"), OrganizationalUnit: []string{"x"}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			certPEM, _ := pair(t, tc.subject)
			if got := (identity.Identity{Names: names, CertPEM: certPEM}).HasSubject(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
