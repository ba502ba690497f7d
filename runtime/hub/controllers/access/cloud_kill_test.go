package access_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/accessrequest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/hubmade"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/logicalcloud"
)

var errKilled = errors.New("the hub is dead")

// killer kills a hub at its n-th write: that one still reaches the server, and the
// hub never learns of it.
type killer struct {
	mu   sync.Mutex
	left int
	dead chan struct{}
}

func (k *killer) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			select {
			case <-k.dead:
				return nil, errKilled
			default:
				return next.RoundTrip(r)
			}
		}
		// One write at a time, so that none slips through beside the last one.
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.left == 0 {
			return nil, errKilled
		}
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/accessrequests") {
			if err := admit(r); err != nil {
				return nil, err
			}
		}
		response, err := next.RoundTrip(r)
		if err == nil && response.StatusCode < http.StatusMultipleChoices {
			k.left-- // what is refused is no write
		}
		if k.left > 0 {
			return response, err
		}
		close(k.dead)
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, errKilled
	})
}

// admit fills in what admission does on a real hub.
func admit(r *http.Request) error {
	request := &unstructured.Unstructured{}
	if err := json.NewDecoder(r.Body).Decode(&request.Object); err != nil {
		return fmt.Errorf("read an access request: %w", err)
	}
	if err := unstructured.SetNestedField(request.Object, int64(3600), "spec", "expirationSeconds"); err != nil {
		return err
	}
	text, err := json.Marshal(request.Object)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	r.GetBody = nil
	return err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// mortal is a world whose hub dies after every n-th write, and starts again. The tests
// play the agents.
type mortal struct {
	*cloudWorld
	n, deaths int
	killer    *killer
	stop      func()
}

// live runs a hub.
func (m *mortal) live() {
	m.Helper()
	m.killer = &killer{left: m.n, dead: make(chan struct{})}
	config := env.Config("muster-controllers")
	config.Wrap(m.killer.wrap)
	stop, err := testenv.RunManager(config, logr.FromSlogHandler(slog.DiscardHandler), func(mgr manager.Manager) error {
		c, err := client.New(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), Cache: &client.CacheOptions{Reader: mgr.GetCache()}})
		if err != nil {
			return err
		}
		live, err := client.New(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
		if err != nil {
			return err
		}
		vault, err := hubmade.NewVault(live, bytes.Repeat([]byte{7}, 32))
		if err != nil {
			return err
		}
		clouds := logicalcloud.NewController(c, live, m.clock, logicalcloud.Options{HubMade: hubmade.NewMaker(live, live, m.clock, vault)})
		return errors.Join(clouds.Register(mgr), accessrequest.NewController(c, live, events.NewFakeRecorder(10000), m.clock).Register(mgr))
	})
	m.Must(err)
	m.stop = stop
}

// until has hub after hub live, and the agents do their part, until check is content.
func (m *mortal) until(what string, check func() error) {
	m.Helper()
	m.Must(testkit.Poll(testkit.Timeout, func() error {
		select {
		case <-m.killer.dead:
			m.deaths++
			m.stop()
			m.live()
		default:
		}
		m.playAgents()
		if err := check(); err != nil {
			return fmt.Errorf("%s: %w, after %d deaths", what, err, m.deaths)
		}
		return nil
	}))
}

// playAgents has the agents answer what there is. What fails is done the next time.
func (m *mortal) playAgents() {
	ctx := context.Background()
	for _, mw := range m.works("prod") {
		if mw.DeletionTimestamp != nil {
			mw.Finalizers = nil
			_ = m.Update(ctx, &mw)
			continue
		}
		if len(mw.Finalizers) == 0 {
			mw.Finalizers = []string{work.ManifestWorkFinalizer}
			_ = m.Update(ctx, &mw)
		}
		available := metav1.ConditionTrue
		if mw.Name == muster.CloudProbe(m.name, "prod") {
			available = metav1.ConditionFalse
			mw.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{Conditions: []metav1.Condition{}}}
		}
		changed := false
		for kind, status := range map[string]metav1.ConditionStatus{work.ConditionApplied: metav1.ConditionTrue, work.ConditionAvailable: available} {
			changed = meta.SetStatusCondition(&mw.Status.Conditions, metav1.Condition{
				Type: kind, Status: status, Reason: "Test", ObservedGeneration: mw.Generation, LastTransitionTime: metav1.NewTime(noon),
			}) || changed
		}
		if changed {
			_ = m.Status().Update(ctx, &mw)
		}
	}
	for _, c := range m.credentials() {
		if len(c.Status.Certificate) > 0 || c.DeletionTimestamp != nil {
			continue
		}
		c.Status.Certificate = m.sign(c.Spec)
		c.Status.Conditions = []metav1.Condition{{Type: muster.ConditionIssued, Status: metav1.ConditionTrue, Reason: muster.ReasonCertificateIssued, LastTransitionTime: metav1.NewTime(noon)}}
		_ = m.Status().Update(ctx, &c)
	}
}

// sign is what a cluster makes of a request.
func (m *mortal) sign(spec v1alpha1.ClusterCredentialSpec) []byte {
	m.Helper()
	block, _ := pem.Decode(spec.Request)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	m.Must(err)
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	m.Must(err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: csr.Subject, NotBefore: m.clock.Now(), NotAfter: m.clock.Now().Add(time.Duration(spec.ExpirationSeconds) * time.Second),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, &x509.Certificate{SerialNumber: big.NewInt(2)}, csr.PublicKey, ca)
	m.Must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func (m *mortal) credentials() []v1alpha1.ClusterCredential {
	m.Helper()
	list := &v1alpha1.ClusterCredentialList{}
	m.Must(m.List(context.Background(), list, client.InNamespace(m.full("a"))))
	return list.Items
}

func (m *mortal) requests() []v1alpha1.AccessRequest {
	m.Helper()
	list := &v1alpha1.AccessRequestList{}
	m.Must(m.List(context.Background(), list, client.InNamespace(m.name)))
	return list.Items
}

func (m *mortal) keys() int {
	m.Helper()
	list := &corev1.SecretList{}
	m.Must(m.List(context.Background(), list, client.InNamespace(muster.AccessKeyNamespace), client.MatchingLabels{muster.LogicalCloudLabel: muster.CloudID(m.name, "prod")}))
	return len(list.Items)
}

// hold checks that jo has access n times over, all with one key, each with one
// credential.
func (m *mortal) hold(n int) func() error {
	return func() error {
		requests, hashes := m.requests(), map[string]bool{}
		for _, r := range requests {
			if !meta.IsStatusConditionTrue(r.Status.Conditions, muster.ConditionIssued) {
				return fmt.Errorf("%s is not issued: %+v", r.Name, r.Status.Conditions)
			}
			hashes[r.Status.KeyHash] = true
		}
		if c := m.credentials(); len(requests) != n || len(c) != n || len(hashes) != 1 || m.keys() != 1 {
			return fmt.Errorf("%d requests, %d credentials, %d keys in them, %d stored; want %d with one key", len(requests), len(c), len(hashes), m.keys(), n)
		}
		if lc := m.get("prod"); lc.Status.Clusters.Ready != 1 || len(lc.Status.RevokedKeys) != 0 {
			return fmt.Errorf("the cloud is not ready: %+v", lc.Status)
		}
		return nil
	}
}

// A hub that dies after each n-th of its writes gets to the same end as one that
// lives: one credential for each request, one key, renewal with it, and nothing left
// in the end.
func TestAHubThatDiesAllTheTimeGetsThere(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("after %d writes", n), func(t *testing.T) {
			w := newCloud(t, "a b", "a", func(s *v1alpha1.LogicalCloudSpec) {
				s.Access.KeyPolicy, s.Access.DefaultLifetimeSeconds, s.Access.Modes = v1alpha1.KeyHubMade, 3600, []v1alpha1.AccessMode{v1alpha1.AccessCertificate}
			})
			w.clock.SetTime(time.Now()) // objects are created at the server's time
			mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.full("a")}}
			w.Merge(mc, `{"metadata":{"annotations":{%q:"Certificate"}},"spec":{"managedClusterClientConfigs":[{"url":"https://a.example:6443"}]}}`, muster.UserAccessAnnotation)
			w.Report(mc, `{"status":{"conditions":[{"type":%q,"status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, cluster.ConditionAvailable)
			m := &mortal{cloudWorld: w, n: n}
			m.live()
			defer func() { m.stop() }()
			m.until("access", m.hold(1))

			w.clock.SetTime(w.clock.Now().Add(45 * time.Minute))
			w.Merge(w.get("prod"), `{"metadata":{"annotations":{"poke":"1"}}}`) // as the timer would
			m.until("renewal", m.hold(2))
			if b := strings.Count(w.work("prod", "a").Annotations[muster.BoundKeysAnnotation], ",") + 1; b != 1 {
				t.Errorf("the work binds %d keys", b)
			}

			w.Must(w.Delete(context.Background(), w.get("prod")))
			lc := &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "prod"}}
			m.until("deletion", func() error {
				if err := w.Get(context.Background(), client.ObjectKeyFromObject(lc), lc); client.IgnoreNotFound(err) != nil || err == nil {
					return fmt.Errorf("the cloud is still there (%w): %+v", err, lc.Status)
				}
				if r, c, works := len(m.requests()), len(m.credentials()), len(m.works("prod")); r+c+works+m.keys() > 0 {
					return fmt.Errorf("%d requests, %d credentials, %d works and %d keys are left", r, c, works, m.keys())
				}
				return nil
			})
			if m.deaths < 2 {
				t.Errorf("it died %d times only", m.deaths)
			}
			t.Logf("%d deaths", m.deaths)
		})
	}
}
