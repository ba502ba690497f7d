package access_test

import (
	"context"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/internal/tunnel/tunneltest"
	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// hubID is the hub of all fixtures.
const hubID = "0123abcd"

// lifetime is what credentials ask for.
const lifetime = time.Hour

// env plays both sides: a hub's credentials are in one namespace of it, and the
// agent's policy in another. The tests play the cluster's signer.
var env testenv.Env

func TestMain(m *testing.M) {
	access := testenv.Gated(kinds.HubWithUserAccess)
	hub := testenv.With(func(ctx context.Context) (func(), error) {
		return func() {}, env.Client().Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: hubinfo.Name},
			Data: map[string]string{
				hubinfo.FeaturesKey: "x," + hubinfo.UserAccess + "," + hubinfo.Tunnel, hubinfo.HubIDKey: hubID,
			},
		})
	})
	testenv.Main(m, &env, testenv.ManagedCluster(), testenv.ExternalSigner(), access, hub)
}

// fixture is a cluster's hub namespace with an agent, the agent's own namespace, and
// the namespace of a logical cloud.
type fixture struct {
	t     testing.TB
	ctx   context.Context
	clock *clocktesting.FakeClock
	client.Client
	hub, own, cloud string
	// key is the user's, and seal the one for tokens.
	key  *ecdsa.PrivateKey
	seal *ecdh.PrivateKey
	// identity is who the agent is in the managed cluster; an administrator by
	// default.
	identity *rest.ImpersonationConfig
	// wrap stands between the agent and the managed cluster, wrapHub between it and
	// the hub.
	wrap, wrapHub func(http.RoundTripper) http.RoundTripper
	// relay is the hub for tunnels, where the agent takes them.
	relay *tunneltest.Relay
	stop  func()

	mu          sync.Mutex
	annotations map[string]string
	log         strings.Builder
	// signer signs what is approved; nil is a silent one.
	signer func(*certificatesv1.CertificateSigningRequest) error
}

// newFixture makes a fixture whose agent is not started yet.
func newFixture(t testing.TB) *fixture {
	f := &fixture{
		t: t, ctx: context.Background(), clock: clocktesting.NewFakeClock(time.Now()), Client: env.Client(),
		hub: testenv.Namespace(t, env.Client()), own: testenv.Namespace(t, env.Client()), cloud: testenv.Namespace(t, env.Client()),
		annotations: map[string]string{}, stop: func() {},
	}
	var err error
	f.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	f.must(err)
	f.seal, err = ecdh.X25519().GenerateKey(rand.Reader)
	f.must(err)
	f.signer = f.sign
	ctx, cancel := context.WithCancel(f.ctx)
	var running sync.WaitGroup
	running.Go(func() { f.playSigner(ctx) })
	t.Cleanup(func() {
		f.stop()
		cancel()
		running.Wait()
		f.must(f.DeleteAllOf(f.ctx, &v1alpha1.ClusterCredential{}, client.InNamespace(f.hub)))
		f.must(f.DeleteAllOf(f.ctx, &certificatesv1.CertificateSigningRequest{}, client.MatchingLabels{muster.AccessClusterLabel: f.hub}))
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
	o := access.Options{
		Part: engine.Part{
			ClusterName: f.hub, Namespace: f.own, Clock: f.clock,
			Hub: env.Config("test-hub"), ManagedCluster: env.Config("test-agent"),
			Log: slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelDebug})),
		},
		HubHost: f.hubHost(),
		Annotate: func(key, value string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.annotations[key] = value
		},
	}
	if f.relay != nil {
		o.Tunnels, o.Upgrades = true, &rest.Config{Host: f.relay.URL}
	}
	if f.identity != nil {
		o.ManagedCluster.Impersonate = *f.identity
	}
	if f.wrap != nil {
		o.ManagedCluster.Wrap(f.wrap)
	}
	if f.wrapHub != nil {
		o.Hub.Wrap(f.wrapHub)
	}
	go func() { done <- access.Run(ctx, o) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Error(err)
		}
	})
}

func (f *fixture) hubHost() string { return "https://" + f.hub + ".example.org:6443" }

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

// annotation is what the agent keeps on its ManagedCluster.
func (f *fixture) annotation() (value string, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	value, known = f.annotations[muster.UserAccessAnnotation]
	return value, known
}

// reports waits for what the agent tells the hub of its modes.
func (f *fixture) reports(want string) {
	f.t.Helper()
	f.eventually(func() error {
		if got, known := f.annotation(); got != want || !known {
			return fmt.Errorf("the agent reports %q, want %q", got, want)
		}
		return nil
	})
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

// credential makes an honest hub's credential; change may spoil it.
func (f *fixture) credential(change func(*v1alpha1.ClusterCredential)) *v1alpha1.ClusterCredential {
	f.t.Helper()
	c := f.honest()
	if change != nil {
		change(c)
	}
	f.must(f.Create(f.ctx, c))
	return c
}

func mode(m v1alpha1.AccessMode) func(*v1alpha1.ClusterCredential) {
	return func(c *v1alpha1.ClusterCredential) { c.Spec.Mode = m }
}

// honest is what an honest hub asks for.
func (f *fixture) honest() *v1alpha1.ClusterCredential {
	f.t.Helper()
	request, err := useraccess.NewRequest(f.key, hubID, "jo@example.com")
	f.must(err)
	uid := uuid.NewUUID()
	return &v1alpha1.ClusterCredential{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.hub, Name: muster.Credential(string(uid)),
			Labels: map[string]string{muster.LogicalCloudLabel: f.cloudID()},
		},
		Spec: v1alpha1.ClusterCredentialSpec{
			AccessRequest: v1alpha1.RequestReference{Namespace: "team-a", Name: "jo", UID: uid},
			HubID:         hubID, Requester: "ci", User: "jo@example.com", Namespace: f.cloud, Mode: v1alpha1.AccessCertificate,
			Request: request, SealTo: f.seal.PublicKey().Bytes(), ExpirationSeconds: int32(lifetime / time.Second),
		},
	}
}

func (f *fixture) cloudID() string { return muster.CloudID(f.hub, "prod") }

func keyHash(t testing.TB, public crypto.PublicKey) string {
	t.Helper()
	hash, err := useraccess.KeyHash(public)
	testkit.Must(t, err)
	return hash
}

// bring plays the work half: it makes the service account of a key, and writes down
// that the cloud's work has made it.
func (f *fixture) bring(hash string) *corev1.ServiceAccount {
	f.t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.cloud, Name: useraccess.ServiceAccount(hash)}}
	f.must(f.Create(f.ctx, sa))
	f.account(sa)
	return sa
}

// account writes down what the cloud's work has made.
func (f *fixture) account(accounts ...*corev1.ServiceAccount) {
	f.t.Helper()
	hubHash := apiwork.HubHash(f.hubHost())
	name := muster.CloudWork(f.hub, "prod")
	amw := &workv1.AppliedManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: apiwork.AppliedManifestWorkName(hubHash, name), Labels: map[string]string{muster.LogicalCloudLabel: f.cloudID()}},
		Spec:       workv1.AppliedManifestWorkSpec{HubHash: hubHash, ManifestWorkName: name, AgentID: f.hub},
	}
	f.must(client.IgnoreAlreadyExists(f.Create(f.ctx, amw)))
	f.must(f.Get(f.ctx, client.ObjectKeyFromObject(amw), amw))
	amw.Status.AppliedResources = nil
	for _, sa := range accounts {
		amw.Status.AppliedResources = append(amw.Status.AppliedResources, workv1.AppliedManifestResourceMeta{
			Version: "v1", ResourceIdentifier: workv1.ResourceIdentifier{Resource: "serviceaccounts", Namespace: sa.Namespace, Name: sa.Name}, UID: string(sa.UID),
		})
	}
	f.must(f.Status().Update(f.ctx, amw))
	f.t.Cleanup(func() { _ = f.Delete(f.ctx, amw) })
}

// policy sets the policy of the cluster's owner; nil removes it.
func (f *fixture) policy(data map[string]string) {
	f.t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.own, Name: muster.PolicyConfigMap}, Data: data}
	f.must(client.IgnoreNotFound(f.Delete(f.ctx, cm.DeepCopy())))
	if data != nil {
		f.must(f.Create(f.ctx, cm))
	}
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
