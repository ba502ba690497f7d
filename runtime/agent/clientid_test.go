package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// byClientID makes a cluster under test one whose agent knows its client ID, and a
// token with annotations, in place of a name and a token that is bound to it.
func (f *fleetCluster) byClientID(id, group string, annotations map[string]string) {
	f.t.Helper()
	f.options.ClusterName, f.options.ClientID = "", id
	f.token = fleet.bootstrapToken(f.t, group)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + strings.Split(f.token, ".")[0]}}
	must(f.t, fleet.client.Get(context.Background(), client.ObjectKeyFromObject(secret), secret))
	secret.Annotations = annotations
	must(f.t, fleet.client.Update(context.Background(), secret))
	f.writeBootstrap(fleet.url)
}

// prepared makes the ManagedCluster as an administrator does who expects the agent.
func (f *fleetCluster) prepared(id string, annotations map[string]string) {
	f.t.Helper()
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: f.name, Annotations: map[string]string{muster.ClientIDAnnotation: id}},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)},
	}
	for k, v := range annotations {
		mc.Annotations[k] = v
	}
	must(f.t, fleet.client.Create(context.Background(), mc))
}

// log is a logger whose lines a test can read.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func (f *fleetCluster) logged() *log {
	l := &log{}
	f.options.Log = slog.New(slog.NewTextHandler(l, nil))
	return l
}

func (l *log) await(t testing.TB, part string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if l.count(part) == 0 {
			return fmt.Errorf("the log does not say %q", part)
		}
		return nil
	})
}

// stepped gives the agent a clock that stands still until the test steps it.
func (f *fleetCluster) stepped() *clocktesting.FakeClock {
	clk := clocktesting.NewFakeClock(time.Now())
	f.options.Clock = clk
	return clk
}

// awaitIn is await for an agent whose clock the test steps.
func (l *log) awaitIn(t testing.TB, clk *clocktesting.FakeClock, part string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		clk.Step(100 * time.Millisecond)
		if l.count(part) == 0 {
			return fmt.Errorf("the log does not say %q", part)
		}
		return nil
	})
}

// attempts lets an agent that can't register try n times more. Between two attempts
// it waits for its clock, and for nothing else.
func attempts(t testing.TB, clk *clocktesting.FakeClock, n int) {
	t.Helper()
	for i := range n + 1 {
		testenv.Eventually(t, func() error {
			if !clk.HasWaiters() {
				return fmt.Errorf("attempt %d does not end", i)
			}
			return nil
		})
		if i < n {
			clk.Step(time.Minute) // more than the longest wait
		}
	}
}

// The agent knows nothing but its client ID, and a token that names it; a person
// has prepared the cluster and does nothing more.
func TestAgentAdoptsThePreparedClusterOfItsClientID(t *testing.T) {
	f := newCluster(t, "adopted")
	id := "store-" + f.name
	f.byClientID(id, cluster.BootstrapGroup, map[string]string{cluster.TokenClientIDsAnnotation: id})
	f.prepared(id, nil)
	f.start()
	f.awaitCondition(cluster.ConditionAvailable, metav1.ConditionTrue)
	if got := f.identity()[cluster.ClusterNameKey]; got != f.name {
		t.Errorf("the agent calls its cluster %q", got)
	}
	system := &corev1.Namespace{}
	must(t, env.Client().Get(t.Context(), client.ObjectKey{Name: "kube-system"}, system))
	if got := f.get().Annotations[muster.ClusterUIDAnnotation]; got != string(system.UID) {
		t.Errorf("the hub notes the UID %q, want %q", got, system.UID)
	}
}

func TestAgentWithoutAnythingRegistersByItsClustersUID(t *testing.T) {
	f := newCluster(t, "anonymous")
	f.byClientID("", cluster.BootstrapGroup, map[string]string{cluster.TokenAllowedLabelsAnnotation: "site"})
	f.options.RegistrationLabels = map[string]string{"site": "17", "env": "prod"}
	logged := f.logged()
	system := &corev1.Namespace{}
	must(t, env.Client().Get(t.Context(), client.ObjectKey{Name: "kube-system"}, system))
	f.name = muster.DerivedClusterName(string(system.UID))
	t.Cleanup(func() {
		f.stopAgent()
		_ = fleet.client.Delete(context.Background(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.name}})
	})
	f.start()
	f.approve()
	f.accept(true)
	f.awaitCondition(cluster.ConditionAvailable, metav1.ConditionTrue)
	if mc := f.get(); mc.Labels["site"] != "17" || mc.Labels["env"] != "" {
		t.Errorf("the labels are %v", mc.Labels)
	}
	logged.await(t, "left out: env")
	// Killed and started again it goes on, without another registration.
	f.stopAgent()
	requests := len(f.requests())
	f.start()
	logged.await(t, "the cluster is registered with the hub")
	if got := len(f.requests()); got != requests {
		t.Errorf("%d certificate requests, want %d", got, requests)
	}
	// Its identity lost, it is not let in again by a token for any cluster.
	f.stopAgent()
	f.loseIdentity()
	f.options.RegistrationLabels = nil // the answer to what it has asked before stays for a while
	f.start()
	logged.await(t, "muster rejoin "+f.name)
}

func TestSecondClusterWithAClientIDIsRefused(t *testing.T) {
	f := newCluster(t, "double")
	id := "store-" + f.name
	f.byClientID(id, cluster.BoundBootstrapGroup(f.name), nil)
	f.prepared(id, map[string]string{muster.ClusterUIDAnnotation: "of-the-first"})
	logged, clk := f.logged(), f.stepped()
	f.start()
	logged.awaitIn(t, clk, "another cluster has registered as")
	attempts(t, clk, 5)
	if n := logged.count("another cluster has registered as"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
	if logged.count("cannot be reached") > 0 {
		t.Error("the hub, which answers, is said to be out of reach")
	}
	if f.get().Annotations[muster.ClusterUIDAnnotation] != "of-the-first" || f.identity() != nil {
		t.Error("the clusters were merged")
	}
}

func TestTokenThatExpiresWhileTheAgentRegisters(t *testing.T) {
	f := newCluster(t, "expiring")
	id := "store-" + f.name
	f.byClientID(id, cluster.BootstrapGroup, nil) // which does not prove anything, so that the agent waits
	f.prepared(id, nil)
	logged := f.logged()
	f.start()
	logged.await(t, "does not prove")
	must(t, fleet.client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + strings.Split(f.token, ".")[0]}}))
	logged.await(t, "they may have expired: make a new token and put it in")
	// A new one is taken up by the running agent.
	f.byClientID(id, cluster.BootstrapGroup, map[string]string{cluster.TokenClientIDsAnnotation: id})
	f.awaitCondition(cluster.ConditionAvailable, metav1.ConditionTrue)
}

func TestBootstrapSecretIsDeletedWhenAskedFor(t *testing.T) {
	f := newCluster(t, "deleting")
	id := "store-" + f.name
	f.byClientID(id, cluster.BootstrapGroup, map[string]string{cluster.TokenClientIDsAnnotation: id})
	f.prepared(id, nil)
	f.options.DeleteBootstrapSecret = true
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.options.Namespace}}
	must(t, env.Client().Create(t.Context(), ns))
	content := f.bootstrapKubeconfig(fleet.url, "hub")
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.options.Namespace, Name: cluster.BootstrapSecret},
		Data:       map[string][]byte{cluster.KubeconfigKey: content},
	}
	must(t, env.Client().Create(t.Context(), secret.DeepCopy()))
	f.start() // the file is there as well, as in a pod
	f.awaitCondition(cluster.ConditionAvailable, metav1.ConditionTrue)
	testenv.Eventually(t, func() error {
		if err := env.Client().Get(context.Background(), client.ObjectKeyFromObject(secret), &corev1.Secret{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Secret is there (%v)", err)
		}
		return nil
	})

	// A restart goes on with the identity.
	f.stopAgent()
	logged := f.logged()
	f.start()
	logged.await(t, "the cluster is registered with the hub")

	// Without its certificate it does not register by what is left of the file.
	f.stopAgent()
	identity := &corev1.Secret{}
	must(t, env.Client().Get(t.Context(), client.ObjectKey{Namespace: f.options.Namespace, Name: cluster.HubKubeconfigSecret}, identity))
	delete(identity.Data, cluster.TLSCertKey)
	delete(identity.Data, cluster.TLSKeyKey)
	must(t, env.Client().Update(t.Context(), identity))
	logged = f.logged()
	f.start()
	logged.await(t, "muster rejoin "+f.name)
	logged.await(t, "that was not used before")

	// All lost: one line says what to do, however often it is tried.
	f.stopAgent()
	f.loseIdentity()
	f.options.BootstrapKubeconfig += "-gone"
	logged, clk := f.logged(), f.stepped()
	f.start()
	logged.awaitIn(t, clk, "muster rejoin CLUSTER")
	attempts(t, clk, 5)
	if n := logged.count("level=WARN"); n != 1 {
		t.Errorf("%d warnings", n)
	}

	// A new Secret is taken up.
	f.token = fleet.bootstrapToken(t, cluster.BoundBootstrapGroup(f.name))
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + strings.Split(f.token, ".")[0]}}
	must(t, fleet.client.Get(t.Context(), client.ObjectKeyFromObject(token), token))
	token.Annotations = map[string]string{cluster.RejoinAnnotation: f.name}
	must(t, fleet.client.Update(t.Context(), token))
	secret.Data[cluster.KubeconfigKey] = f.bootstrapKubeconfig(fleet.url, "hub")
	must(t, env.Client().Create(t.Context(), secret.DeepCopy()))
	logged.awaitIn(t, clk, "deleted the bootstrap Secret")
}

// withoutClientIDs has the hub announce what an upstream one does: nothing.
func withoutClientIDs(t testing.TB) {
	t.Helper()
	info := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: hubinfo.Name}}
	must(t, fleet.client.Get(context.Background(), client.ObjectKeyFromObject(info), info))
	was := info.DeepCopy()
	must(t, fleet.client.Delete(context.Background(), info))
	t.Cleanup(func() {
		was.ResourceVersion, was.UID = "", ""
		must(t, fleet.client.Create(context.Background(), was))
	})
}

func TestClientIDAtAHubThatKnowsNone(t *testing.T) {
	withoutClientIDs(t)
	f := newCluster(t, "upstream")
	f.byClientID("store-17", cluster.BootstrapGroup, nil)
	logged := f.logged()
	f.start()
	logged.await(t, "name the cluster with --cluster-name")
	if logged.count("cannot be reached") > 0 {
		t.Error("the hub, which answers, is said to be out of reach")
	}
	if got := f.identity(); got != nil {
		t.Errorf("the agent has stored %v", got)
	}
}

// A cluster that was set up again has another UID, and comes back under its name.
func TestRebuiltClusterComesBackUnderItsName(t *testing.T) {
	f := newCluster(t, "rebuilt")
	f.byClientID("", cluster.BoundBootstrapGroup(f.name), map[string]string{cluster.RejoinAnnotation: f.name})
	f.prepared("old-uid", map[string]string{muster.ClusterUIDAnnotation: "old-uid"})
	f.patchStatus(func(s *clusterv1.ManagedClusterStatus) {
		s.Conditions = append(s.Conditions, metav1.Condition{Type: cluster.ConditionJoined, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now()})
	})
	f.start()
	f.awaitCondition(cluster.ConditionAvailable, metav1.ConditionTrue)
	mc := f.get()
	if uid := mc.Annotations[muster.ClusterUIDAnnotation]; uid == "old-uid" || mc.Annotations[muster.ClientIDAnnotation] != uid {
		t.Errorf("the annotations are %v", mc.Annotations)
	}
}
