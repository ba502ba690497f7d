package access_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

func TestCertificateIsIssued(t *testing.T) {
	f := newFixture(t)
	f.setSigner(nil)
	f.start()
	c := f.credential(nil)
	r := f.request(c, isApproved)
	if r.Name != "muster-access-"+string(c.Spec.AccessRequest.UID) || r.Spec.SignerName != "kubernetes.io/kube-apiserver-client" ||
		*r.Spec.ExpirationSeconds != 3600 || !slices.Equal(r.Spec.Usages, []certificatesv1.KeyUsage{"client auth", "digital signature"}) ||
		r.Annotations[muster.RequesterAnnotation] != "ci" || r.Annotations[muster.AccessRequestAnnotation] != "team-a/jo" {
		t.Errorf("the request is %+v with %v", r.Spec, r.Annotations)
	}
	f.setSigner(f.sign)
	f.issued(c)
	hash := keyHash(t, f.key.Public())
	leaf, err := useraccess.ReadCertificate(c.Status.Certificate, hubID, "jo@example.com", hash)
	f.must(err)
	if c.Status.KeyHash != hash || c.Status.Serial != "abcdef" || !c.Status.NotAfter.Time.Equal(leaf.NotAfter) || !c.Status.NotBefore.Time.Equal(leaf.NotBefore) {
		t.Errorf("the status is %+v", c.Status.IssuedAccess)
	}
	f.reported("CertificateIssued", hash, "jo@example.com", `"ci"`, "team-a/jo", f.cloud)
	f.reports("Certificate,Token")
}

// A library that panics about one credential ends neither the agent nor the others.
func TestPanicAboutOneCredentialStopsNoOther(t *testing.T) {
	f := newFixture(t)
	f.setSigner(f.sign)
	var odd atomic.Pointer[string]
	var panics atomic.Int32
	f.wrapHub = func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if name := odd.Load(); name != nil && r.Method != http.MethodGet && strings.Contains(r.URL.Path, *name) {
				panics.Add(1)
				panic("odd credential")
			}
			return next.RoundTrip(r)
		})
	}
	first := f.credential(nil)
	odd.Store(&first.Name)
	f.start()
	f.eventually(func() error { // which is what the hub gets to know once the certificate is signed
		if panics.Load() == 0 {
			return errors.New("no panic yet")
		}
		return nil
	})
	f.issued(f.credential(nil))
	odd.Store(nil)
	f.eventually(func() error {
		f.clock.Step(time.Second) // the pause after a failure begins at some time after it
		return f.isIssued(first)
	})
	f.issued(first)
}

func TestTokenIsIssuedForTheWorksServiceAccount(t *testing.T) {
	f := started(t)
	c := f.credential(mode(v1alpha1.AccessToken))
	hash := keyHash(t, f.seal.PublicKey())
	f.waits(c, muster.ReasonServiceAccountMissing)
	sa := f.bring(hash)
	f.issued(c)
	token, err := useraccess.Open(f.seal, c.Status.SealedToken, string(c.Spec.AccessRequest.UID))
	f.must(err)
	if c.Status.KeyHash != hash || len(c.Status.Certificate) > 0 {
		t.Errorf("the status is %+v", c.Status.IssuedAccess)
	}
	if until := c.Status.NotAfter.Time; until.After(time.Now().Add(lifetime+time.Minute)) || until.Before(time.Now().Add(lifetime-time.Minute)) {
		t.Errorf("valid until %s", until)
	}
	if who := f.whoIs(string(token)); who != "system:serviceaccount:"+sa.Namespace+":"+sa.Name {
		t.Errorf("the token is %s", who)
	}
	if strings.Contains(f.logged(), string(token)) {
		t.Error("the token is in the log")
	}
}

func TestAutoTakesATokenWhereTheSignerDoesNotSign(t *testing.T) {
	for name, tc := range map[string]struct {
		signer func(*fixture, *certificatesv1.CertificateSigningRequest) error
		after  time.Duration
	}{
		"silent":  {nil, 31 * time.Second},
		"refuses": {(*fixture).fail, 0},
		"ignores the lifetime": {func(f *fixture, r *certificatesv1.CertificateSigningRequest) error {
			return f.signWith(r, func(c *x509.Certificate) { c.NotAfter = c.NotAfter.AddDate(1, 0, 0) })
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.setSigner(nil)
			if tc.signer != nil {
				f.setSigner(func(r *certificatesv1.CertificateSigningRequest) error { return tc.signer(f, r) })
			}
			f.bring(keyHash(t, f.key.Public()))
			f.start()
			c := f.credential(mode(v1alpha1.AccessAuto))
			if tc.after > 0 {
				f.request(c, isApproved)
				f.step(tc.after)
			}
			f.issued(c)
			if len(c.Status.SealedToken) == 0 || len(c.Status.Certificate) > 0 {
				t.Errorf("the status is %+v", c.Status.IssuedAccess)
			}
			f.reports("Token")
			// The next one does not wait for the signer.
			next := f.credential(mode(v1alpha1.AccessAuto))
			f.issued(next)
			// Some time later the signer gets another chance.
			f.setSigner(f.sign)
			f.step(2 * time.Hour)
			f.reports("Certificate,Token")
			later := f.credential(mode(v1alpha1.AccessAuto))
			f.issued(later)
			if len(later.Status.Certificate) == 0 {
				t.Errorf("the status is %+v", later.Status.IssuedAccess)
			}
		})
	}
}

func TestSignerThatDoesNotSignFailsACertificate(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*x509.Certificate)) func(*fixture, *certificatesv1.CertificateSigningRequest) error {
		return func(f *fixture, r *certificatesv1.CertificateSigningRequest) error { return f.signWith(r, change) }
	}
	for name, tc := range map[string]struct {
		signer        func(*fixture, *certificatesv1.CertificateSigningRequest) error
		reason, words string
	}{
		"silent":               {nil, "SignerSilent", "mode Token or Auto"},
		"refuses":              {(*fixture).fail, "SignerRefused", "no such key here"},
		"ignores the lifetime": {with(func(c *x509.Certificate) { c.NotAfter = c.NotAfter.Add(time.Hour) }), "SignerIgnoredLifetime", "withheld"},
		"another subject":      {with(func(c *x509.Certificate) { c.Subject.CommonName = "system:admin" }), "RequestTampered", "system:admin"},
		"a second group": {with(func(c *x509.Certificate) { c.Subject.Organization = append(c.Subject.Organization, "x") }),
			"RequestTampered", "withheld"},
		"another key": {with(func(c *x509.Certificate) { c.PublicKey = other.Public() }), "RequestTampered", "another key"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.setSigner(nil)
			if tc.signer != nil {
				f.setSigner(func(r *certificatesv1.CertificateSigningRequest) error { return tc.signer(f, r) })
			}
			f.start()
			c := f.credential(nil)
			if tc.signer == nil {
				f.request(c, isApproved)
				f.step(29 * time.Second)
				f.must(f.Get(f.ctx, client.ObjectKeyFromObject(c), c))
				if len(c.Status.Conditions) > 0 {
					t.Errorf("after 29 s: %+v", c.Status.Conditions)
				}
				f.step(2 * time.Second)
			}
			f.refused(c, tc.reason, tc.words)
			f.reported(tc.reason, "refused")
		})
	}
}

// A token ends with its service account. When the hub moves the accounts to another
// namespace, or somebody has deleted one, the agent hands over a token of the new one,
// which ends when the first would have.
func TestTokenIsReplacedWhenItsAccountIsMadeAgain(t *testing.T) {
	began := time.Now() // the API server has this clock, and the agent one that stands still
	f := started(t)
	hash := keyHash(t, f.seal.PublicKey())
	old := f.bring(hash)
	c := f.credential(mode(v1alpha1.AccessToken))
	f.issued(c)
	first := c.Status.IssuedAccess
	if first.ServiceAccountUID != string(old.UID) {
		t.Errorf("the status is %+v", first)
	}
	accounts := muster.AccountNamespace(hubID, f.cloudID())
	f.must(f.Create(f.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: accounts}}))
	moved := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: accounts, Name: old.Name}}
	f.must(f.Create(f.ctx, moved))
	f.account(old, moved)
	f.eventually(func() error {
		f.must(f.Get(f.ctx, client.ObjectKeyFromObject(c), c))
		if c.Status.ServiceAccountUID != string(moved.UID) {
			return fmt.Errorf("the token is of the account %s, want %s", c.Status.ServiceAccountUID, moved.UID)
		}
		return nil
	})
	token, err := useraccess.Open(f.seal, c.Status.SealedToken, string(c.Spec.AccessRequest.UID))
	f.must(err)
	if who := f.whoIs(string(token)); who != "system:serviceaccount:"+accounts+":"+old.Name {
		t.Errorf("the token is %s", who)
	}
	if until := c.Status.NotAfter.Time; until.After(first.NotAfter.Add(time.Since(began) + 5*time.Second)) {
		t.Errorf("the second token lives until %s, the first until %s", until, first.NotAfter)
	}
	// The owner takes it back: the account goes where it is now.
	f.policy(map[string]string{"enabled": "false"})
	f.eventually(func() error {
		if err := f.Get(f.ctx, client.ObjectKeyFromObject(moved), moved.DeepCopy()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the account is still there: %w", err)
		}
		return nil
	})
}
