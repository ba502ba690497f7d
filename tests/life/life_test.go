package life

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
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

	"github.com/muster-fleet/terraform-provider-muster/internal/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	name      = "paris"
	namespace = "life-agent"

	// lifetime is what the agent asks for its certificates. Each is good for the
	// five minutes before its request as well, so that a fifth of its life, with
	// which an agent renews it at the latest, are thirteen minutes.
	lifetime = time.Hour
	late     = 12 * time.Minute

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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	m := &member{t: t, clock: clk, options: agent.Options{
		ClusterName: name, Namespace: namespace, ManagedCluster: env.Config("life"),
		ClientCertExpirationSeconds: int32(lifetime / time.Second), HealthAddress: listener.Addr().String(), Clock: clk,
	}}
	must(t, listener.Close())
	t.Cleanup(func() { m.halt(); m.uninstall() })
	return m
}

// uninstall removes what the agent has in the cluster, and waits until it is
// gone.
func (m *member) uninstall() {
	m.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	must(m.t, client.IgnoreNotFound(env.Client().Delete(context.Background(), ns)))
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
	testenv.Eventually(m.t, func() error {
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
	must(m.t, err)
	if left := certificate.NotAfter.Sub(m.clock.Now()); left > late {
		m.clock.Step(left - late)
	}
}

// settled waits until check is content, while the clock stands still.
func (m *member) settled(check func() bool) {
	m.t.Helper()
	testenv.Eventually(m.t, func() error {
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
	must(m.t, client.IgnoreAlreadyExists(c.Create(ctx, ns)))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster.BootstrapSecret}, Data: map[string][]byte{"kubeconfig": content}}
	err := c.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = c.Update(ctx, secret)
	}
	must(m.t, err)
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
	must(m.t, h.client.List(context.Background(), list, client.MatchingLabels{cluster.NameLabel: name}))
	return list.Items
}

// clean deletes the requests that have their certificates, as Kubernetes does
// when they are an hour old, by the real clock.
func (m *member) clean(h *fleetHub) {
	m.t.Helper()
	for _, r := range m.requests(h) {
		if len(r.Status.Certificate) > 0 {
			must(m.t, client.IgnoreNotFound(h.client.Delete(context.Background(), &r)))
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
	must(m.t, h.client.Create(context.Background(), mw))
	testenv.Eventually(m.t, func() error {
		return env.Client().Get(context.Background(), types.NamespacedName{Namespace: "default", Name: work}, &corev1.ConfigMap{})
	})
}

// gone waits until an object is no more.
func (m *member) gone(c client.Client, o client.Object) {
	m.t.Helper()
	testenv.Eventually(m.t, func() error {
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

// A cluster joins, renews its certificate for as long as it lives, survives
// outages, is denied and let in again, loses its token, moves to another hub,
// and leaves without a trace.
func TestLifeOfACluster(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	first, second := newHub(t, clk), newHub(t, clk)
	m := newMember(t, clk)
	before := map[string][]string{
		"the first hub": inventory(t, first.config), "the second hub": inventory(t, second.config), "the cluster": inventory(t, env.Config("life")),
	}
	ctx := context.Background()
	step := func(what string) { t.Logf("%s: %s", clk.Now().Format("15:04"), what) }

	step("join")
	token := first.token(cluster.BoundBootstrapGroup(name))
	m.giveBootstrap(first.kubeconfig(token))
	m.start()
	m.accept(first, true)
	m.alive(first, clk.Now())
	m.giveWork(first, "one")
	m.clean(first)

	renewals := 0
	renew := func(h *fleetHub) {
		t.Helper()
		was := m.certificate()
		m.goOnUntilRenewalIsDue()
		m.renewed(h, was)
		renewals++
	}
	step("ten renewals")
	for range 10 {
		renew(first)
	}

	step("an outage of the hub while a renewal is due")
	was := m.certificate()
	first.halt()
	m.goOnUntilRenewalIsDue()
	m.says("cannot be reached")
	first.start()
	m.renewed(first, was)
	renewals++

	step("denied, over a renewal")
	was = m.certificate()
	m.accept(first, false)
	// The agent may still finish with its works, and only then the hub calls it
	// denied.
	must(t, first.client.Delete(ctx, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "one"}}))
	m.lacksWork("one")
	testenv.Eventually(t, first.look(is(cluster.ConditionHubAccepted, metav1.ConditionFalse)))
	m.says("has denied the cluster")
	m.goOnUntilRenewalIsDue()
	// The hub looks at the lease when something happens, or by the real clock.
	must(t, first.client.Patch(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"x":"y"}}}`))))
	testenv.Eventually(t, first.look(is(cluster.ConditionAvailable, metav1.ConditionUnknown)))
	if n := len(m.requests(first)); n != 0 || m.certificate() != was {
		t.Errorf("the denied cluster has asked for a certificate (%d requests)", n)
	}

	step("accepted again")
	m.accept(first, true)
	m.renewed(first, was)
	renewals++
	m.giveWork(first, "two")

	step("the token expires")
	must(t, first.client.Get(ctx, client.ObjectKeyFromObject(token), token))
	token.Data["expiration"] = []byte(time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
	must(t, first.client.Update(ctx, token))
	m.gone(first.client, token)
	for range 8 {
		renew(first)
	}
	if renewals != 20 {
		t.Errorf("%d renewals, want 20", renewals)
	}

	step("an outage for longer than the certificate lives")
	was = m.certificate()
	first.halt()
	clk.Step(2 * lifetime)
	m.says("cannot be reached")
	first.start()
	m.says("does not know the credentials in the bootstrap kubeconfig")
	if m.certificate() != was {
		t.Error("the agent has another certificate, which nobody can have signed")
	}

	step("a new token heals it")
	token = first.token(cluster.BoundBootstrapGroup(name))
	m.giveBootstrap(first.kubeconfig(token))
	m.approve(first) // nobody but an administrator lets in a second agent of a cluster that has joined
	m.renewed(first, was)
	must(t, first.client.Get(ctx, types.NamespacedName{Namespace: name, Name: "two"}, &workv1.ManifestWork{}))

	step("it leaves the first hub for the second")
	must(t, first.client.Delete(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	m.gone(first.client, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
	m.lacksWork("two")
	must(t, first.client.Delete(ctx, token))
	was = m.certificate()
	token = second.token(cluster.BoundBootstrapGroup(name))
	m.giveBootstrap(second.kubeconfig(token))
	m.accept(second, true)
	m.renewed(second, was)
	m.giveWork(second, "three")
	renew(second)

	step("it leaves for good")
	must(t, second.client.Delete(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	m.gone(second.client, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
	m.lacksWork("three")
	m.halt()
	must(t, second.client.Delete(ctx, token))
	m.uninstall()

	// Upstream, too, leaves the namespace with its lease, for an administrator to
	// delete.
	kept := []string{"coordination.k8s.io/leases " + name + "/" + cluster.LeaseName, "namespaces " + name}
	expectAdded(t, m, "the first hub", first.config, before, kept)
	expectAdded(t, m, "the second hub", second.config, before, kept)
	expectAdded(t, m, "the cluster", env.Config("life"), before, nil)
}
