package life

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	name      = "paris"
	namespace = "life-agent"
	// home is what the agent, and nobody else, calls the managed cluster, so that
	// its requests can be distinguished from others'.
	home = "home.test"

	// lifetime is what the agent asks for its certificates. Each is good for the
	// five minutes before its request as well, so that a fifth of its life, with
	// which an agent renews it at the latest, are thirteen minutes.
	lifetime = time.Hour
	late     = 12 * time.Minute

	// beat is longer than the period of heartbeats with its jitter.
	beat = 76 * time.Second

	// passing is how much time passes at most while something is waited for: more
	// than any pause of the agent, and too little for a certificate to expire.
	passing = 4 * time.Minute
)

// member is the cluster whose life this is.
type member struct {
	t       testing.TB
	clock   *clocktesting.FakeClock
	options agent.Options
	stop    func()
}

func newMember(t testing.TB, clk *clocktesting.FakeClock) *member {
	t.Helper()
	managed := env.Config("life")
	server, err := url.Parse(managed.Host)
	testkit.Must(t, err)
	managed.Host, managed.ServerName = "https://"+home, server.Hostname()
	managed.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Host)
	}
	m := &member{t: t, clock: clk, options: agent.Options{
		ClusterName: name, Namespace: namespace, ManagedCluster: managed,
		ClientCertExpirationSeconds: int32(lifetime / time.Second), HealthAddress: testkit.FreeAddress(t), Clock: clk,
	}}
	t.Cleanup(func() { m.halt(); m.uninstall() })
	return m
}

// uninstall removes what the agent has in the cluster, and waits until it is
// gone.
func (m *member) uninstall() {
	m.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	testkit.Must(m.t, client.IgnoreNotFound(env.Client().Delete(context.Background(), ns)))
	m.gone(env.Client(), ns)
}

// start runs the agent.
func (m *member) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx, m.options) }()
	// An agent that stops bounds its wait by its clock, so that one has to go on.
	m.stop = func() {
		cancel()
		for {
			select {
			case err := <-done:
				if err != nil {
					m.t.Errorf("the agent ended with %v", err)
				}
				return
			case <-time.After(10 * time.Millisecond):
				m.clock.Step(time.Second)
			}
		}
	}
}

func (m *member) halt() {
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
}

// until lets time pass, a little at a time, until check is content. What does
// not depend on the agent's clock is better waited for with testenv.Eventually.
func (m *member) until(check func() error) {
	m.t.Helper()
	start := m.clock.Now()
	testkit.Eventually(m.t, func() error {
		err := check()
		if err != nil && m.clock.Since(start) < passing {
			m.clock.Step(time.Second)
		}
		return err
	})
}

// goOnUntilRenewalIsDue lets the time pass until the agent has to have begun to
// renew its certificate.
func (m *member) goOnUntilRenewalIsDue() {
	m.t.Helper()
	block, _ := pem.Decode([]byte(m.certificate()))
	certificate, err := x509.ParseCertificate(block.Bytes)
	testkit.Must(m.t, err)
	if left := certificate.NotAfter.Sub(m.clock.Now()); left > late {
		m.clock.Step(left - late)
	}
}

// settled waits until check is content, while the clock stands still.
func (m *member) settled(check func() bool) {
	m.t.Helper()
	testkit.Eventually(m.t, func() error {
		if !check() {
			return fmt.Errorf("it goes on")
		}
		return nil
	})
}

// giveBootstrap puts a bootstrap kubeconfig where the agent finds it.
func (m *member) giveBootstrap(content []byte) {
	m.t.Helper()
	ctx, c := context.Background(), env.Client()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	testkit.Must(m.t, client.IgnoreAlreadyExists(c.Create(ctx, ns)))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster.BootstrapSecret}, Data: map[string][]byte{"kubeconfig": content}}
	err := c.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = c.Update(ctx, secret)
	}
	testkit.Must(m.t, err)
}

// certificate is the one that the agent has stored.
func (m *member) certificate() string {
	secret := &corev1.Secret{}
	if err := env.Client().Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: cluster.HubKubeconfigSecret}, secret); err != nil {
		return ""
	}
	return string(secret.Data[cluster.TLSCertKey])
}

// says waits until the agent says what it is doing.
func (m *member) says(part string) {
	m.t.Helper()
	m.until(func() error {
		response, err := http.Get("http://" + m.options.HealthAddress + "/livez")
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err == nil && !strings.Contains(string(body), part) {
			err = fmt.Errorf("the agent says %q, want %q in it", body, part)
		}
		return err
	})
}

// look asks a hub for the cluster, and looks at it.
func (h *fleetHub) look(check func(*clusterv1.ManagedCluster) error) func() error {
	return func() error {
		mc := &clusterv1.ManagedCluster{}
		if err := h.client.Get(context.Background(), types.NamespacedName{Name: name}, mc); err != nil {
			return err
		}
		return check(mc)
	}
}

func is(condition string, status metav1.ConditionStatus) func(*clusterv1.ManagedCluster) error {
	return func(mc *clusterv1.ManagedCluster) error {
		if !meta.IsStatusConditionPresentAndEqual(mc.Status.Conditions, condition, status) {
			return fmt.Errorf("%s is not %s: %+v", condition, status, mc.Status.Conditions)
		}
		return nil
	}
}

// alive waits for a heartbeat from after a moment, and for the report that all
// is well.
func (m *member) alive(h *fleetHub, after time.Time) {
	m.t.Helper()
	m.until(func() error {
		lease := &coordinationv1.Lease{}
		if err := h.client.Get(context.Background(), types.NamespacedName{Namespace: name, Name: cluster.LeaseName}, lease); err != nil {
			return err
		}
		if lease.Spec.RenewTime.Time.Before(after.Truncate(time.Microsecond)) {
			return fmt.Errorf("the last heartbeat is from %s, which is before %s", lease.Spec.RenewTime, after)
		}
		return nil
	})
	m.until(h.look(is(cluster.ConditionAvailable, metav1.ConditionTrue)))
	m.until(h.look(is(cluster.ConditionClockSynced, metav1.ConditionTrue)))
}

func (m *member) accept(h *fleetHub, yes bool) {
	m.t.Helper()
	m.until(func() error {
		mc := &clusterv1.ManagedCluster{}
		if err := h.client.Get(context.Background(), types.NamespacedName{Name: name}, mc); err != nil {
			return err
		}
		mc.Spec.HubAcceptsClient = ptr.To(yes)
		return h.client.Update(context.Background(), mc)
	})
}

// approve approves the cluster's request, as an administrator would.
func (m *member) approve(h *fleetHub) {
	m.t.Helper()
	m.until(func() error {
		for _, r := range m.requests(h) {
			if len(r.Status.Conditions) > 0 {
				continue
			}
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "by the test"}}
			_, err := h.kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(context.Background(), r.Name, &r, metav1.UpdateOptions{})
			return err
		}
		return fmt.Errorf("nobody asks for a certificate")
	})
}

func (m *member) requests(h *fleetHub) []certificatesv1.CertificateSigningRequest {
	m.t.Helper()
	list := &certificatesv1.CertificateSigningRequestList{}
	testkit.Must(m.t, h.client.List(context.Background(), list, client.MatchingLabels{cluster.NameLabel: name}))
	return list.Items
}

// clean deletes the requests that have their certificates, as Kubernetes does
// when they are an hour old, by the real clock.
func (m *member) clean(h *fleetHub) {
	m.t.Helper()
	for _, r := range m.requests(h) {
		if len(r.Status.Certificate) > 0 {
			testkit.Must(m.t, client.IgnoreNotFound(h.client.Delete(context.Background(), &r)))
		}
	}
}

// renewed waits until the agent has another certificate than was.
func (m *member) renewed(h *fleetHub, was string) {
	m.t.Helper()
	m.until(func() error {
		if now := m.certificate(); now == was || now == "" {
			return fmt.Errorf("it is still the same certificate")
		}
		return nil
	})
	m.clock.Step(beat) // so that one with the new certificate is due
	m.alive(h, m.clock.Now())
	m.clean(h)
}

// giveWork has a hub put a config map into the cluster.
func (m *member) giveWork(h *fleetHub, work string) {
	m.t.Helper()
	raw := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":%q}}`, work)
	mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: work}}
	mw.Spec.Workload.Manifests = []workv1.Manifest{{}}
	mw.Spec.Workload.Manifests[0].Raw = raw
	testkit.Must(m.t, h.client.Create(context.Background(), mw))
	testkit.Eventually(m.t, func() error {
		return env.Client().Get(context.Background(), types.NamespacedName{Namespace: "default", Name: work}, &corev1.ConfigMap{})
	})
}

// gone waits until an object is no more.
func (m *member) gone(c client.Client, o client.Object) {
	m.t.Helper()
	testkit.Eventually(m.t, func() error {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%T %s is still there (%v)", o, o.GetName(), err)
		}
		return nil
	})
}

func (m *member) lacksWork(work string) {
	m.t.Helper()
	m.gone(env.Client(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: work}})
}
