package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestAuthoritySurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	first, err := LoadOrCreateAuthority(dir, "muster hub", now)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := first.Issue(Request{CommonName: "admin", Organizations: []string{"system:masters"}, Lifetime: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatalf("certificate and key do not belong together: %v", err)
	}
	second, err := LoadOrCreateAuthority(dir, "another name", now)
	if err != nil {
		t.Fatal(err)
	}
	verify(t, second, certPEM, x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})

	info, err := os.Stat(first.KeyFile)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file mode: got %v, %v, want 0600", info.Mode(), err)
	}
}

func TestServingCertificateIsValidForItsHosts(t *testing.T) {
	a, err := LoadOrCreateAuthority(t.TempDir(), "muster hub", now)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, _, err := a.Issue(Request{CommonName: "muster-hub", Hosts: []string{"localhost", "127.0.0.1", "hub.example.org"}, Lifetime: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"localhost", "127.0.0.1", "hub.example.org"} {
		verify(t, a, certPEM, x509.VerifyOptions{DNSName: host, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	}
	cert, err := ParseCertificate(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	if err := cert.VerifyHostname("other.example.org"); err == nil {
		t.Error("valid for a host that was not asked for")
	}
}

func TestHalfAnAuthorityIsRefused(t *testing.T) {
	for what, damage := range map[string]func(file string) error{
		"without":      os.Remove,
		"with half of": func(file string) error { return os.Truncate(file, 100) },
	} {
		for _, damaged := range []string{"ca.crt", "ca.key"} {
			dir := t.TempDir()
			if _, err := LoadOrCreateAuthority(dir, "muster hub", now); err != nil {
				t.Fatal(err)
			}
			if err := damage(filepath.Join(dir, damaged)); err != nil {
				t.Fatal(err)
			}
			_, err := LoadOrCreateAuthority(dir, "muster hub", now)
			if err == nil || !strings.Contains(err.Error(), damaged) || !strings.Contains(err.Error(), "backup") {
				t.Errorf("%s %s: got %v, want an error that names it and the remedy", what, damaged, err)
			}
		}
	}
}

func TestMismatchedPairIsRefused(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		if _, err := LoadOrCreateAuthority(dir, "muster hub", now); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(two, "ca.key"), filepath.Join(one, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreateAuthority(one, "muster hub", now); err == nil || !strings.Contains(err.Error(), "is not the key of") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestServiceAccountKeyIsKept(t *testing.T) {
	name := filepath.Join(t.TempDir(), "sa.key")
	first, err := LoadOrCreateKey(name)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(name)
	if again, err := LoadOrCreateKey(name); err != nil || again != first {
		t.Fatalf("got %q, %v, want %q", again, err, first)
	}
	if after, _ := os.ReadFile(name); string(after) != string(before) {
		t.Error("the key changed: every token signed by it would be refused")
	}
}

func TestRotateRenewsAtTwoThirdsAndRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var issued []time.Duration
		go Rotate(t.Context(), clock.RealClock{}, 90*time.Hour, "serving", func(at time.Time) error {
			issued = append(issued, at.Sub(start))
			if len(issued) == 1 {
				return errors.New("disk full")
			}
			return nil
		})
		time.Sleep(200 * time.Hour) // of the bubble's own time
		synctest.Wait()
		want := []time.Duration{60 * time.Hour, 60*time.Hour + retryAfter, 120*time.Hour + retryAfter, 180*time.Hour + retryAfter}
		if !slices.Equal(issued, want) {
			t.Errorf("issued after %v, want %v", issued, want)
		}
	})
}

func verify(t *testing.T, a *Authority, certPEM []byte, opts x509.VerifyOptions) {
	t.Helper()
	cert, err := ParseCertificate(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	opts.Roots = x509.NewCertPool()
	opts.Roots.AppendCertsFromPEM(a.CertPEM)
	opts.CurrentTime = now
	if _, err := cert.Verify(opts); err != nil {
		t.Errorf("certificate for %q: %v", opts.DNSName, err)
	}
}
