package addon_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// env plays both sides: a hub's add-ons are in one namespace of it, and those of the
// managed cluster in others. The tests approve and sign certificate requests.
var env testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.ManagedCluster(), testenv.ExternalSigner())
}

// lifetime is that of the certificates that the hub signs.
const lifetime = 24 * time.Hour

// fixture is a cluster's hub namespace with an agent, and the namespaces of the agent
// and of the add-ons in the managed cluster.
type fixture struct {
	t     testing.TB
	ctx   context.Context
	clock *clocktesting.FakeClock
	client.Client
	hub, own, install string

	endpoint identity.Endpoint
	driver   string
	// identity is who the agent is in the managed cluster; an administrator by
	// default.
	identity *rest.ImpersonationConfig
	// wrap stands between the agent and the managed cluster, wrapHub between it and
	// the hub.
	wrap, wrapHub func(http.RoundTripper) http.RoundTripper
	stop          func()
	// silent is whether the ManagedCluster does not say that there are add-ons, and changed
	// has an element when that may be another.
	silent  atomic.Bool
	changed chan struct{}

	mu  sync.Mutex
	log strings.Builder
	// decide says what becomes of a certificate request.
	decide func(*certificatesv1.CertificateSigningRequest) error
	ca     *ecdsa.PrivateKey
}

// newFixture makes a fixture whose agent is not started yet.
func newFixture(t testing.TB) *fixture {
	f := &fixture{
		t: t, ctx: context.Background(), clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second)), Client: env.Client(),
		hub: testenv.Namespace(t, env.Client()), own: testenv.Namespace(t, env.Client()), install: testenv.Namespace(t, env.Client()),
		stop: func() {}, changed: make(chan struct{}, 1),
		endpoint: identity.Endpoint{Cluster: "the-hub", Server: "https://hub.example.org:6443", CAData: []byte("the authority"), ProxyURL: "http://proxy:3128"},
	}
	var err error
	f.ca, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	f.must(err)
	f.decide = f.sign
	ctx, cancel := context.WithCancel(f.ctx)
	var running sync.WaitGroup
	running.Go(func() { f.playHub(ctx) })
	t.Cleanup(func() {
		f.stop()
		cancel()
		running.Wait()
		f.must(f.DeleteAllOf(f.ctx, &addonv1beta1.ManagedClusterAddOn{}, client.InNamespace(f.hub)))
		f.must(f.DeleteAllOf(f.ctx, &certificatesv1.CertificateSigningRequest{}, client.MatchingLabels{cluster.NameLabel: f.hub}))
	})
	return f
}

// started is a fixture with a running agent.
func started(t testing.TB) *fixture {
	f := newFixture(t)
	f.start()
	return f
}

// start runs an agent until stop is called.
func (f *fixture) start() {
	ctx, cancel := context.WithCancel(f.ctx)
	done := make(chan error, 1)
	o := addon.Options{
		Part: engine.Part{
			ClusterName: f.hub, Namespace: f.own, Clock: f.clock,
			Hub: env.Config("test-hub"), ManagedCluster: env.Config("test-agent"),
			Log: slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelDebug})),
		},
		Endpoint: f.endpoint, Driver: f.driver,
		Announced: func() bool { return !f.silent.Load() }, Changed: f.changed,
	}
	o.Hub.Impersonate = rest.ImpersonationConfig{UserName: cluster.CommonName(f.hub, "agent"), Groups: []string{"system:masters"}}
	if f.identity != nil {
		o.ManagedCluster.Impersonate = *f.identity
	}
	if f.wrap != nil {
		o.ManagedCluster.Wrap(f.wrap)
	}
	if f.wrapHub != nil {
		o.Hub.Wrap(f.wrapHub)
	}
	go func() { done <- addon.Run(ctx, o) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Error(err)
		}
	})
}

// restart ends the agent and starts another one.
func (f *fixture) restart() {
	f.stop()
	f.start()
}

// Write takes the agent's log.
func (f *fixture) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(line)
}

func (f *fixture) logged() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.String()
}

func (f *fixture) must(err error) {
	f.t.Helper()
	testkit.Must(f.t, err)
}

func (f *fixture) eventually(check func() error) {
	f.t.Helper()
	testkit.Eventually(f.t, func() error {
		if err := check(); err != nil {
			return fmt.Errorf("%w\nthe agent's log:\n%s", err, f.logged())
		}
		return nil
	})
}

// step moves the clock on once somebody waits for it.
func (f *fixture) step(d time.Duration) {
	f.t.Helper()
	f.eventually(func() error {
		if !f.clock.HasWaiters() {
			return errors.New("nothing waits for the clock")
		}
		return nil
	})
	f.clock.Step(d)
}

// playHub decides about the certificate requests of the cluster.
func (f *fixture) playHub(ctx context.Context) {
	for ctx.Err() == nil {
		for _, r := range f.requests("") {
			if len(r.Status.Conditions) > 0 {
				continue
			}
			f.mu.Lock()
			decide := f.decide
			f.mu.Unlock()
			if err := decide(&r); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				f.t.Errorf("decide about %s: %v", r.Name, err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// hubDoes sets what the hub does with requests from now on.
func (f *fixture) hubDoes(decide func(*certificatesv1.CertificateSigningRequest) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decide = decide
}

// ignore is a hub that decides nothing.
func (f *fixture) ignore(*certificatesv1.CertificateSigningRequest) error { return nil }

// deny is a hub that wants no agent of an add-on.
func (f *fixture) deny(r *certificatesv1.CertificateSigningRequest) error {
	return f.conclude(r, certificatesv1.CertificateDenied)
}

func (f *fixture) conclude(r *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) error {
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: "Test", Message: "for a reason", LastUpdateTime: metav1.Now(),
	})
	return f.SubResource("approval").Update(f.ctx, r)
}

// sign approves and signs what is asked for.
func (f *fixture) sign(r *certificatesv1.CertificateSigningRequest) error {
	return f.signWith(r, func(*x509.Certificate) {})
}

// signWith signs what change has made of the template.
func (f *fixture) signWith(r *certificatesv1.CertificateSigningRequest, change func(*x509.Certificate)) error {
	if err := f.conclude(r, certificatesv1.CertificateApproved); err != nil {
		return err
	}
	block, _ := pem.Decode(r.Spec.Request)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	now := f.clock.Now()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: csr.Subject, DNSNames: csr.DNSNames,
		NotBefore: now, NotAfter: now.Add(lifetime), PublicKey: csr.PublicKey,
	}
	change(template)
	issuer := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, template.PublicKey, f.ca)
	if err != nil {
		return err
	}
	r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return f.SubResource("status").Update(f.ctx, r)
}

// requests are the certificate requests of an add-on, or of all with "".
func (f *fixture) requests(addOn string) []certificatesv1.CertificateSigningRequest {
	labels := client.MatchingLabels{cluster.NameLabel: f.hub}
	if addOn != "" {
		labels[cluster.AddOnNameLabel] = addOn
	}
	list := &certificatesv1.CertificateSigningRequestList{}
	if err := f.List(f.ctx, list, labels); err != nil {
		f.t.Errorf("list certificate requests: %v", err)
	}
	return list.Items
}

// addOn makes an add-on in the namespace install, with registrations as a manager of
// add-ons writes them.
func (f *fixture) addOn(name string, registrations ...addonv1beta1.RegistrationConfig) *addonv1beta1.ManagedClusterAddOn {
	f.t.Helper()
	m := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: f.hub, Name: name}}
	f.must(f.Create(f.ctx, m))
	f.says(m, func(m *addonv1beta1.ManagedClusterAddOn) {
		m.Status.Namespace, m.Status.Registrations = f.install, registrations
	})
	return m
}

// says changes the status of an add-on as the hub.
func (f *fixture) says(m *addonv1beta1.ManagedClusterAddOn, change func(*addonv1beta1.ManagedClusterAddOn)) {
	f.t.Helper()
	f.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := f.Get(f.ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		change(m)
		return f.Status().Update(f.ctx, m)
	}))
}

func forHub(user string, groups ...string) addonv1beta1.RegistrationConfig {
	return addonv1beta1.RegistrationConfig{
		Type:       addonv1beta1.RegistrationTypeKubeClient,
		KubeClient: &addonv1beta1.KubeClientConfig{Subject: addonv1beta1.KubeClientSubject{User: user, Groups: groups}},
	}
}

func signedBy(signer string) addonv1beta1.RegistrationConfig {
	return addonv1beta1.RegistrationConfig{
		Type:         addonv1beta1.RegistrationTypeCustomSigner,
		CustomSigner: &addonv1beta1.CustomSignerConfig{SignerName: signer, Subject: addonv1beta1.Subject{User: "u", OrganizationUnits: []string{"ou"}}},
	}
}

// secret reads a Secret of the managed cluster, nil when there is none.
func (f *fixture) secret(namespace, name string) *corev1.Secret {
	f.t.Helper()
	s := &corev1.Secret{}
	err := f.Get(f.ctx, client.ObjectKey{Namespace: namespace, Name: name}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	f.must(err)
	return s
}

// stored waits for a Secret in the namespace install that passes a check.
func (f *fixture) stored(name string, check func(*corev1.Secret) error) (s *corev1.Secret) {
	f.t.Helper()
	f.eventually(func() (err error) {
		s, err = f.has(name, check)
		return err
	})
	return s
}

// storedLater is stored while the clock moves on, minute by minute: the agent may just begin
// to wait when it moves, and wait for the next minute then.
func (f *fixture) storedLater(name string, check func(*corev1.Secret) error) (s *corev1.Secret) {
	f.t.Helper()
	f.eventually(func() error {
		f.step(time.Minute)
		return testkit.Poll(2*time.Second, func() (err error) {
			s, err = f.has(name, check)
			return err
		})
	})
	return s
}

// has is a Secret in the namespace install, and what is wrong with it.
func (f *fixture) has(name string, check func(*corev1.Secret) error) (*corev1.Secret, error) {
	s := f.secret(f.install, name)
	switch {
	case s == nil:
		return nil, fmt.Errorf("there is no Secret %s", name)
	case check == nil:
		return s, nil
	}
	return s, check(s)
}

// removed waits until a Secret is gone.
func (f *fixture) removed(namespace, name string) {
	f.t.Helper()
	f.eventually(func() error {
		if f.secret(namespace, name) != nil {
			return fmt.Errorf("the Secret %s/%s is there", namespace, name)
		}
		return nil
	})
}

// another is a check for a Secret that was replaced.
func another(before *corev1.Secret) func(*corev1.Secret) error {
	return func(s *corev1.Secret) error {
		for _, key := range []string{"tls.crt", "tls.key", "token"} {
			if len(before.Data[key]) > 0 && string(before.Data[key]) == string(s.Data[key]) {
				return fmt.Errorf("its %s is still the same", key)
			}
		}
		return nil
	}
}

func leaf(t testing.TB, s *corev1.Secret) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(s.Data["tls.crt"])
	if block == nil {
		t.Fatalf("the Secret %s has no certificate", s.Name)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	testkit.Must(t, err)
	return c
}

// condition waits until an add-on has a condition with this status and reason, and a
// message with this piece.
func (f *fixture) condition(m *addonv1beta1.ManagedClusterAddOn, kind, status, reason, piece string) {
	f.t.Helper()
	f.eventually(func() error {
		if err := f.Get(f.ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		c := meta.FindStatusCondition(m.Status.Conditions, kind)
		if c == nil || string(c.Status) != status || c.Reason != reason || !strings.Contains(c.Message, piece) {
			return fmt.Errorf("the condition %s is %+v, want %s %s with %q", kind, c, status, reason, piece)
		}
		return nil
	})
}

// stays checks for a moment that something remains so.
func (f *fixture) stays(check func() error) {
	f.t.Helper()
	for range 20 {
		if err := check(); err != nil {
			f.t.Fatalf("%v\nthe agent's log:\n%s", err, f.logged())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// asked checks how many requests an add-on has made.
func (f *fixture) asked(addOn string, want int) error {
	if got := len(f.requests(addOn)); got != want {
		return fmt.Errorf("%d certificate requests, want %d", got, want)
	}
	return nil
}
