package pki

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// server is a serving certificate's chain.
func server(t *testing.T, a *Authority) []*x509.Certificate {
	t.Helper()
	chainPEM, _, err := a.Issue(Request{CommonName: "hub", Hosts: []string{"hub.example.org"}, Lifetime: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	var chain []*x509.Certificate
	for block, rest := pem.Decode(chainPEM); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, c)
	}
	return chain
}

// verifies reports whether a client that trusts roots takes a server's chain.
func verifies(chain []*x509.Certificate, roots []byte) error {
	o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), DNSName: "hub.example.org", CurrentTime: now}
	o.Roots.AppendCertsFromPEM(roots)
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(o)
	return err
}

func TestClientsOfTheOldAuthorityGoOnUntilItIsRetired(t *testing.T) {
	dir := t.TempDir()
	old, err := LoadOrCreateAuthority(dir, "muster hub", now)
	if err != nil {
		t.Fatal(err)
	}
	oldBundle := old.BundlePEM()
	agent, _, err := old.Issue(Request{CommonName: "agent", Lifetime: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	replaced, err := Replace(dir, "muster hub", now)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadOrCreateAuthority(dir, "muster hub", now)
	if err != nil {
		t.Fatal(err)
	}
	if string(loaded.CertPEM) != string(replaced.CertPEM) || string(loaded.CertPEM) == string(old.CertPEM) {
		t.Error("the new authority is not the one in its place")
	}
	for what, roots := range map[string][]byte{"the old authority": oldBundle, "the new one": loaded.CertPEM, "both": loaded.BundlePEM()} {
		if err := verifies(server(t, loaded), roots); err != nil {
			t.Errorf("a client that trusts %s: %v", what, err)
		}
	}
	verify(t, &Authority{CertPEM: loaded.BundlePEM()}, agent, x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	client, _, err := loaded.Issue(Request{CommonName: "agent", Lifetime: time.Hour}, now)
	if err != nil || strings.Count(string(client), "BEGIN") != 1 {
		t.Errorf("a client's certificate comes with a server's chain (%v)", err)
	}

	if _, err := Replace(dir, "muster hub", now); err == nil || !strings.Contains(err.Error(), "retire") {
		t.Errorf("replaced twice: got %v, want the remedy", err)
	}
	if err := Retire(dir); err != nil {
		t.Fatal(err)
	}
	retired, err := LoadOrCreateAuthority(dir, "muster hub", now)
	if err != nil {
		t.Fatal(err)
	}
	if string(retired.BundlePEM()) != string(loaded.CertPEM) {
		t.Error("the old authority is still trusted, or the new one is lost")
	}
	if verifies(server(t, retired), oldBundle) == nil {
		t.Error("the server still shows a certificate that the old authority has signed")
	}
	if err := Retire(dir); !errors.Is(err, ErrNothingToRetire) {
		t.Errorf("retired twice: got %v", err)
	}
	if _, err := Replace(t.TempDir(), "muster hub", now); err == nil {
		t.Error("replaced an authority that is not there")
	}
}

// A replacement that was interrupted after any of its writes leaves an authority
// that starts, and can be repeated.
func TestInterruptedReplacement(t *testing.T) {
	for _, tc := range []struct {
		name string
		undo func(dir string, old map[string][]byte) error // the writes after the interruption
		new  bool
	}{
		{"before the key is in its place", func(dir string, old map[string][]byte) error {
			return errors.Join(os.Rename(filepath.Join(dir, "ca.crt"), filepath.Join(dir, pendingCert)), os.Rename(filepath.Join(dir, "ca.key"), filepath.Join(dir, pendingKey)),
				os.WriteFile(filepath.Join(dir, "ca.crt"), old["ca.crt"], 0o600), os.WriteFile(filepath.Join(dir, "ca.key"), old["ca.key"], 0o600))
		}, false},
		{"before the certificate is in its place", func(dir string, old map[string][]byte) error {
			return errors.Join(os.Rename(filepath.Join(dir, "ca.crt"), filepath.Join(dir, pendingCert)),
				os.WriteFile(filepath.Join(dir, "ca.crt"), old["ca.crt"], 0o600))
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := LoadOrCreateAuthority(dir, "muster hub", now); err != nil {
				t.Fatal(err)
			}
			old := map[string][]byte{}
			for _, f := range []string{"ca.crt", "ca.key"} {
				old[f], _ = os.ReadFile(filepath.Join(dir, f))
			}
			if _, err := Replace(dir, "muster hub", now); err != nil {
				t.Fatal(err)
			}
			if err := tc.undo(dir, old); err != nil {
				t.Fatal(err)
			}
			a, err := LoadOrCreateAuthority(dir, "muster hub", now)
			if err != nil {
				t.Fatal(err)
			}
			if err := verifies(server(t, a), old["ca.crt"]); err != nil {
				t.Errorf("a client that trusts the old authority: %v", err)
			}
			if isNew := string(a.CertPEM) != string(old["ca.crt"]); isNew != tc.new {
				t.Errorf("the new authority is in its place: %v", isNew)
			}
			if !tc.new {
				if _, err := Replace(dir, "muster hub", now); err != nil {
					t.Errorf("repeated: %v", err)
				}
			}
		})
	}
}
