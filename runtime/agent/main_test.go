package agent_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

var (
	// env is the managed cluster of all agents.
	env testenv.Env
	// fleet is their hub.
	fleet testHub
)

// testHub is a real hub in this process.
type testHub struct {
	url    string
	ca     []byte
	config *rest.Config
	client client.Client
}

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.ManagedCluster(), testenv.With(fleet.start))
}

func (h *testHub) start(ctx context.Context) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "muster-test-hub-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ready, done := make(chan hub.Ready, 1), make(chan error, 1)
	go func() {
		done <- hub.Run(ctx, hub.Options{DataDir: dir, Log: logr.Discard()}, func(r hub.Ready) { ready <- r })
	}()
	stop = func() {
		cancel()
		<-done
		_ = os.RemoveAll(dir)
	}
	select {
	case r := <-ready:
		return stop, h.connect(r)
	case err := <-done:
		cancel()
		return nil, err
	}
}

func (h *testHub) connect(r hub.Ready) (err error) {
	h.url = r.URL
	h.config, err = clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		return err
	}
	h.config.QPS = -1
	h.ca = h.config.CAData
	return h.reconnect()
}

func (h *testHub) reconnect() (err error) {
	h.client, err = client.New(h.config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	return err
}

// fleetCluster is a cluster under test: its agent and its place on the hub.
type fleetCluster struct {
	t       testing.TB
	name    string
	token   string
	options agent.Options
	stop    func()
}

// newCluster prepares a cluster with a bootstrap token that is bound to it, so
// that every test also shows that such a token suffices.
func newCluster(t testing.TB, name string) *fleetCluster {
	t.Helper()
	name += "-" + utilrand.String(5) // what a cluster leaves on the hub outlives its test
	f := &fleetCluster{t: t, name: name, token: fleet.bootstrapToken(t, cluster.BoundBootstrapGroup(name))}
	f.options = agent.Options{
		ClusterName:         name,
		Namespace:           "agent-" + name,
		BootstrapKubeconfig: filepath.Join(t.TempDir(), "kubeconfig"),
		ManagedCluster:      env.Config("test"),
		Log:                 slog.Default(),
	}
	f.writeBootstrap(fleet.url)
	t.Cleanup(func() {
		f.stopAgent()
		_ = fleet.client.Delete(context.Background(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
	})
	return f
}

func (f *fleetCluster) bootstrapKubeconfig(server, clusterEntry string) []byte {
	content, err := kubeconfig.Config{Cluster: clusterEntry, User: "bootstrap", Context: "bootstrap", Server: server, CAData: fleet.ca, Token: f.token}.YAML()
	must(f.t, err)
	return content
}

func (f *fleetCluster) writeBootstrap(server string) {
	must(f.t, os.WriteFile(f.options.BootstrapKubeconfig, f.bootstrapKubeconfig(server, "hub"), 0o600))
}

// start runs the agent until stopAgent.
func (f *fleetCluster) start() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx, f.options) }()
	f.stop = func() {
		cancel()
		start := time.Now()
		if err := <-done; err != nil {
			f.t.Errorf("Run returned %v, want nil when its context ends", err)
		}
		if d := time.Since(start); d > time.Minute { // what waits for something waits for longer
			f.t.Errorf("Run took %s to return, want a second", d)
		}
	}
}

func (f *fleetCluster) stopAgent() {
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// join brings the cluster to the state of a healthy member, about which nothing
// more is heard until its next heartbeat.
func (f *fleetCluster) join() {
	f.t.Helper()
	f.start()
	f.approve()
	f.accept(true)
	f.awaitCondition(cluster.ConditionAvailable, metav1.ConditionTrue)
	f.awaitCondition(cluster.ConditionClockSynced, metav1.ConditionTrue)
	f.awaitCondition(muster.ConditionHubEndpointCurrent, metav1.ConditionTrue)
	testenv.Eventually(f.t, func() error { // the last that the hub does about a cluster that has come
		if taints := f.get().Spec.Taints; len(taints) > 0 {
			return fmt.Errorf("the cluster still has the taints %v", taints)
		}
		return nil
	})
}

// patchStatus writes the status in the hub's place.
func (f *fleetCluster) patchStatus(change func(*clusterv1.ManagedClusterStatus)) {
	f.t.Helper()
	mc := f.get()
	before := mc.DeepCopy()
	change(&mc.Status)
	must(f.t, fleet.client.Status().Patch(context.Background(), mc, client.MergeFrom(before)))
}

// requests are the cluster's certificate requests.
func (f *fleetCluster) requests() []certificatesv1.CertificateSigningRequest {
	f.t.Helper()
	list := &certificatesv1.CertificateSigningRequestList{}
	must(f.t, fleet.client.List(context.Background(), list, client.MatchingLabels{cluster.NameLabel: f.name}))
	return list.Items
}

// approve waits for a request that nobody has decided about, and approves it.
func (f *fleetCluster) approve() {
	f.t.Helper()
	f.decide(certificatesv1.CertificateApproved)
}

func (f *fleetCluster) decide(how certificatesv1.RequestConditionType) string {
	f.t.Helper()
	clientset, err := kubernetes.NewForConfig(fleet.config)
	must(f.t, err)
	var name string
	testenv.Eventually(f.t, func() error {
		requests := f.requests()
		i := slices.IndexFunc(requests, func(r certificatesv1.CertificateSigningRequest) bool {
			return len(r.Status.Conditions) == 0 && strings.HasPrefix(r.Name, f.name+"-") // not others'
		})
		if i < 0 {
			return fmt.Errorf("no pending request among %d", len(requests))
		}
		r := &requests[i]
		name = r.Name
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: how, Status: corev1.ConditionTrue, Reason: "Test", Message: "by the test"}}
		_, err := clientset.CertificatesV1().CertificateSigningRequests().UpdateApproval(context.Background(), r.Name, r, metav1.UpdateOptions{})
		return err
	})
	return name
}

func (f *fleetCluster) get() *clusterv1.ManagedCluster {
	f.t.Helper()
	mc := &clusterv1.ManagedCluster{}
	must(f.t, fleet.client.Get(context.Background(), client.ObjectKey{Name: f.name}, mc))
	return mc
}

func (f *fleetCluster) accept(yes bool) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		mc := &clusterv1.ManagedCluster{}
		if err := fleet.client.Get(context.Background(), client.ObjectKey{Name: f.name}, mc); err != nil {
			return err
		}
		mc.Spec.HubAcceptsClient = ptr.To(yes)
		return fleet.client.Update(context.Background(), mc)
	})
}

func (f *fleetCluster) awaitCondition(kind string, status metav1.ConditionStatus) {
	f.t.Helper()
	f.eventually(func(mc *clusterv1.ManagedCluster) error {
		if !meta.IsStatusConditionPresentAndEqual(mc.Status.Conditions, kind, status) {
			return fmt.Errorf("condition %s is not %s: %+v", kind, status, mc.Status.Conditions)
		}
		return nil
	})
}

// eventually waits until the ManagedCluster passes a check.
func (f *fleetCluster) eventually(check func(*clusterv1.ManagedCluster) error) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		mc := &clusterv1.ManagedCluster{}
		if err := fleet.client.Get(context.Background(), client.ObjectKey{Name: f.name}, mc); err != nil {
			return err
		}
		return check(mc)
	})
}

// identity is what the agent has stored; empty when there is nothing.
func (f *fleetCluster) identity() map[string]string {
	secret := &corev1.Secret{}
	if err := env.Client().Get(context.Background(), client.ObjectKey{Namespace: f.options.Namespace, Name: cluster.HubKubeconfigSecret}, secret); err != nil {
		return nil
	}
	data := map[string]string{}
	for k, v := range secret.Data {
		data[k] = string(v)
	}
	return data
}

// bootstrapToken makes a token that is in a group.
func (h *testHub) bootstrapToken(t testing.TB, group string) string {
	t.Helper()
	_, token := testfleet.Hub{Admin: h.config}.BootstrapToken(t, group, nil)
	return token
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
