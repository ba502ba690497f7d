package agent_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/pki"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

// door is an address at which a hub can be reached, as long as it is open.
type door struct {
	t       testing.TB
	address string
	to      func() string

	mu       sync.Mutex
	listener net.Listener // nil while it is closed
	open     []net.Conn
}

// newDoor opens a door that leads to an address, which may change.
func newDoor(t testing.TB, to func() string) *door {
	t.Helper()
	d := &door{t: t, address: testkit.FreeAddress(t), to: to}
	d.reopen()
	t.Cleanup(d.close)
	return d
}

// toHub is the address of the tests' shared hub.
func toHub() string { return strings.TrimPrefix(fleet.url, "https://") }

func (d *door) url() string { return "https://" + d.address }

func (d *door) reopen() {
	d.t.Helper()
	l, err := net.Listen("tcp", d.address)
	must(d.t, err)
	d.mu.Lock()
	d.listener = l
	d.mu.Unlock()
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			if out, err := net.Dial("tcp", d.to()); err != nil || !d.pass(l, in, out) {
				_ = in.Close()
			}
		}
	}()
}

// pass lets a connection through, unless the door was closed meanwhile.
func (d *door) pass(l net.Listener, in, out net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener != l {
		_ = out.Close()
		return false
	}
	d.open = append(d.open, in, out)
	go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
	go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
	return true
}

func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener != nil {
		_ = d.listener.Close()
	}
	for _, c := range d.open {
		_ = c.Close()
	}
	d.listener, d.open = nil, nil
}

// movingHub is a hub of its own, in the place of the tests' shared one, with two
// doors.
type movingHub struct {
	t            *testing.T
	dir, address string
	old, new     *door
	stop         func()
	// clock is the real one when it is nil.
	clock clock.WithTicker
}

func newMovingHub(t *testing.T) *movingHub {
	t.Helper()
	h := &movingHub{t: t, dir: t.TempDir(), address: testkit.FreeAddress(t)}
	h.old, h.new = newDoor(t, h.to), newDoor(t, h.to)
	shared := fleet
	t.Cleanup(func() { h.halt(); fleet = shared })
	return h
}

func (h *movingHub) to() string { return h.address }

func (h *movingHub) halt() {
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

// run runs the hub, and stops the one that ran before.
func (h *movingHub) run(o hub.Options) {
	h.t.Helper()
	h.halt()
	ctx, cancel := context.WithCancel(context.Background())
	_, port, err := net.SplitHostPort(h.address)
	must(h.t, err)
	_, err = fmt.Sscan(port, &o.SecurePort)
	must(h.t, err)
	o.DataDir, o.Log, o.Clock = h.dir, logr.Discard(), h.clock
	ready, done := make(chan hub.Ready, 1), make(chan error, 1)
	go func() {
		done <- hub.Run(ctx, o, func(r hub.Ready) { ready <- r })
		close(done)
	}()
	h.stop = func() { cancel(); <-done }
	select {
	case r := <-ready:
		must(h.t, fleet.connect(r))
		fleet.config.Host = "https://" + h.address // whatever door agents use
		must(h.t, fleet.reconnect())
		fleet.url = h.old.url()
	case err := <-done:
		h.t.Fatal(err)
	}
}

// before and after are the hub's options on both sides of the move.
func (h *movingHub) before() hub.Options { return hub.Options{ExternalURL: h.old.url()} }
func (h *movingHub) after() hub.Options {
	return hub.Options{ExternalURL: h.new.url(), AdditionalExternalURLs: []string{h.old.url()}}
}

// member is an accepted cluster whose bootstrap kubeconfig is in the Secret.
func (h *movingHub) member(name string) *fleetCluster {
	h.t.Helper()
	f := newCluster(h.t, name)
	f.options.AgentID = f.name // all agents of the tests are in one cluster
	must(h.t, fleet.client.Create(context.Background(), &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: f.name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)},
	}))
	must(h.t, os.Remove(f.options.BootstrapKubeconfig))
	f.options.BootstrapKubeconfig = ""
	must(h.t, env.Client().Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.options.Namespace}}))
	f.putBootstrap(fleet.url)
	return f
}

func (f *fleetCluster) putBootstrap(server string) {
	f.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.options.Namespace, Name: cluster.BootstrapSecret}}
	_ = client.IgnoreNotFound(env.Client().Delete(context.Background(), secret))
	secret.ResourceVersion = ""
	secret.Data = map[string][]byte{cluster.KubeconfigKey: f.bootstrapKubeconfig(server, "hub")}
	must(f.t, env.Client().Create(context.Background(), secret))
}

// leadsTo is where the bootstrap kubeconfig in the Secret leads.
func (f *fleetCluster) leadsTo() string {
	secret := &corev1.Secret{}
	if err := env.Client().Get(context.Background(), client.ObjectKey{Namespace: f.options.Namespace, Name: cluster.BootstrapSecret}, secret); err != nil {
		return err.Error()
	}
	config, err := clientcmd.Load(secret.Data[cluster.KubeconfigKey])
	if err != nil {
		return err.Error()
	}
	return config.Clusters["hub"].Server
}

// awaitEndpoint waits for what the agent says about the hub's endpoint.
func (f *fleetCluster) awaitEndpoint(status metav1.ConditionStatus, reason string, says ...string) {
	f.t.Helper()
	f.eventually(func(mc *clusterv1.ManagedCluster) error {
		c := meta.FindStatusCondition(mc.Status.Conditions, muster.ConditionHubEndpointCurrent)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("%s: the condition is %+v, want %s %s", mc.Name, c, status, reason)
		}
		for _, s := range says {
			if !strings.Contains(c.Message, s) {
				return fmt.Errorf("%s: the condition says %q, want %q", mc.Name, c.Message, s)
			}
		}
		return nil
	})
}

// expectRequests fails when the cluster has another number of certificate requests.
func (f *fleetCluster) expectRequests(want int) {
	f.t.Helper()
	if n := len(f.requests()); n != want {
		f.t.Errorf("%s has %d certificate requests, want %d: nobody was to register again", f.name, n, want)
	}
}

// startBeating starts the agent and waits until it gives a sign of life.
func (f *fleetCluster) startBeating() {
	f.t.Helper()
	before := f.lease().Spec.RenewTime
	f.start()
	testenv.Eventually(f.t, func() error {
		if f.lease().Spec.RenewTime.Equal(before) {
			return fmt.Errorf("no heartbeat since %s", before)
		}
		return nil
	})
}

// company is another authority, and a serving certificate of it for the doors.
func company(t *testing.T) (hub.Options, []byte) {
	t.Helper()
	dir := t.TempDir()
	a, err := pki.LoadOrCreateAuthority(dir, "company", time.Now())
	must(t, err)
	cert, key, err := a.Issue(pki.Request{CommonName: "hub", Hosts: []string{"localhost"}, Lifetime: time.Hour}, time.Now())
	must(t, err)
	pair := controlplane.NamedCertificate{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	must(t, os.WriteFile(pair.CertFile, cert, 0o600))
	must(t, os.WriteFile(pair.KeyFile, key, 0o600))
	return hub.Options{NamedCertificates: []controlplane.NamedCertificate{pair}, ExternalCAFiles: []string{a.CertFile}}, a.CertPEM
}

// fleetSize is how many agents move.
const fleetSize = 40

// A hub gets another URL, and there a certificate of another authority. All agents
// follow. None registers again, and nothing that works have made is touched.
func TestAFleetFollowsItsHub(t *testing.T) {
	h := newMovingHub(t)
	h.run(h.before())
	var fleetOf []*fleetCluster
	for i := range fleetSize {
		fleetOf = append(fleetOf, h.member(fmt.Sprintf("moves-%d", i)))
	}
	for _, f := range fleetOf {
		f.start()
	}
	for _, f := range fleetOf {
		f.awaitEndpoint(metav1.ConditionTrue, muster.ReasonEndpointCurrent, "generation 1:", h.old.url())
	}
	made := worksOf(t, fleetOf[:3])

	o, _ := company(t)
	o.ExternalURL, o.AdditionalExternalURLs = strings.Replace(h.new.url(), "127.0.0.1", "localhost", 1), []string{h.old.url()}
	h.run(o)
	for _, f := range fleetOf {
		f.awaitEndpoint(metav1.ConditionTrue, muster.ReasonEndpointCurrent, "generation 2:", o.ExternalURL)
	}
	h.old.close() // nobody needs it any more
	for _, f := range fleetOf {
		f.expectRequests(1)
		if got := f.leadsTo(); got != o.ExternalURL {
			t.Errorf("the bootstrap kubeconfig of %s leads to %s, want %s", f.name, got, o.ExternalURL)
		}
	}
	fleetOf[0].stopAgent()
	fleetOf[0].startBeating()
	if now := observe(t, fleetOf[:3]); !slices.Equal(made, now) {
		t.Errorf("what works have made was\n%s\nand is\n%s", strings.Join(made, "\n"), strings.Join(now, "\n"))
	}
	update(t, fleetOf[0])
}

// worksOf gives each cluster a work, and returns what it has made once it is done.
func worksOf(t *testing.T, clusters []*fleetCluster) []string {
	t.Helper()
	for _, f := range clusters {
		object := &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: f.name},
			Data: map[string]string{"k": "v"},
		}
		must(t, fleet.client.Create(t.Context(), &workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: f.name},
			Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Object: object}}}}},
		}))
	}
	for _, f := range clusters {
		f.awaitWork("v")
	}
	return observe(t, clusters)
}

func (f *fleetCluster) awaitWork(value string) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		mw, object := &workv1.ManifestWork{}, &corev1.ConfigMap{}
		if err := fleet.client.Get(context.Background(), client.ObjectKey{Namespace: f.name, Name: f.name}, mw); err != nil {
			return err
		}
		if err := env.Client().Get(context.Background(), client.ObjectKey{Namespace: "default", Name: f.name}, object); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(mw.Status.Conditions, "Available"); object.Data["k"] != value || c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != mw.Generation {
			return fmt.Errorf("the work is %+v, the object has %v", mw.Status.Conditions, object.Data)
		}
		return nil
	})
}

// observe distinguishes all writes to what works have made.
func observe(t *testing.T, clusters []*fleetCluster) []string {
	t.Helper()
	var all []string
	for _, f := range clusters {
		object, list := &corev1.ConfigMap{}, &workv1.AppliedManifestWorkList{}
		must(t, env.Client().Get(t.Context(), client.ObjectKey{Namespace: "default", Name: f.name}, object))
		must(t, env.Client().List(t.Context(), list))
		all = append(all, fmt.Sprint(object.UID, object.ResourceVersion, object.OwnerReferences))
		for _, x := range list.Items {
			all = append(all, fmt.Sprint(x.Name, x.UID, x.ResourceVersion))
		}
	}
	return all
}

// update shows that a work is still carried out.
func update(t *testing.T, f *fleetCluster) {
	t.Helper()
	mw := &workv1.ManifestWork{}
	must(t, fleet.client.Get(t.Context(), client.ObjectKey{Namespace: f.name, Name: f.name}, mw))
	mw.Spec.Workload.Manifests[0].Raw = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":%q},"data":{"k":"w"}}`, f.name)
	must(t, fleet.client.Update(t.Context(), mw))
	f.awaitWork("w")
}

// publish writes what the hub publishes, as an administrator can.
func publish(t *testing.T, change func(data map[string]string)) {
	t.Helper()
	testenv.Eventually(t, func() error {
		config := &corev1.ConfigMap{}
		if err := fleet.client.Get(context.Background(), client.ObjectKey{Namespace: "kube-public", Name: hubinfo.EndpointsName}, config); err != nil {
			return err
		}
		change(config.Data)
		return fleet.client.Update(context.Background(), config)
	})
}
