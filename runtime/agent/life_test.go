package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func someRequest(t testing.TB, name string) *certificatesv1.CertificateSigningRequest {
	_, request := testkit.CertificateRequest(t, cluster.CommonName(name, "other"), cluster.Group(name))
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "other-", Labels: map[string]string{cluster.NameLabel: name}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}
}

func TestRestartChangesNothing(t *testing.T) {
	f := newCluster(t, "restart")
	f.join()
	before, identity := f.get(), f.identity()
	f.stopAgent()
	lease := f.lease()
	f.start()
	testenv.Eventually(t, func() error {
		if f.lease().ResourceVersion == lease.ResourceVersion {
			return fmt.Errorf("the lease was not renewed since the restart")
		}
		return nil
	})
	if n := len(f.requests()); n != 1 {
		t.Errorf("%d certificate requests, want the first one only", n)
	}
	if now := f.identity(); now[cluster.TLSCertKey] != identity[cluster.TLSCertKey] || now[cluster.AgentNameKey] != identity[cluster.AgentNameKey] {
		t.Error("the identity has changed")
	}
	if now := f.get(); now.ResourceVersion != before.ResourceVersion {
		t.Errorf("the ManagedCluster was written without need: from %+v to %+v", before, now)
	}
}

func TestInterruptedBootstrapKeepsTheAgentsName(t *testing.T) {
	f := newCluster(t, "interrupted")
	f.start()
	testenv.Eventually(t, func() error {
		if len(f.requests()) == 0 {
			return fmt.Errorf("no request yet")
		}
		return nil
	})
	name := f.identity()[cluster.AgentNameKey]
	f.stopAgent()
	for _, r := range f.requests() { // its key is lost
		must(t, fleet.client.Delete(t.Context(), &r))
	}
	f.join()
	if got := f.identity()[cluster.AgentNameKey]; got != name || name == "" {
		t.Errorf("the agent is called %q after the restart and was %q", got, name)
	}
}

func TestDeniedClusterComesBackWithItsCertificate(t *testing.T) {
	f := newCluster(t, "denied")
	f.join()
	f.accept(false)
	f.awaitCondition(cluster.ConditionHubAccepted, metav1.ConditionFalse)
	f.accept(true)
	f.awaitCondition(cluster.ConditionHubAccepted, metav1.ConditionTrue)
	// Only an agent that is let in again can know that this is not so.
	f.patchStatus(func(s *clusterv1.ManagedClusterStatus) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: cluster.ConditionAvailable, Status: metav1.ConditionUnknown, Reason: "Test"})
	})
	f.awaitCondition(cluster.ConditionAvailable, metav1.ConditionTrue)
	if n := len(f.requests()); n != 1 {
		t.Errorf("%d certificate requests, want the first one only", n)
	}
}

func TestDeletedAndRecreatedClusterComesBack(t *testing.T) {
	f := newCluster(t, "reborn")
	f.join()
	must(t, fleet.client.Delete(t.Context(), f.get()))
	testenv.Eventually(t, func() error {
		err := fleet.client.Get(context.Background(), client.ObjectKey{Name: f.name}, &clusterv1.ManagedCluster{})
		if client.IgnoreNotFound(err) == nil && err != nil {
			return nil
		}
		return fmt.Errorf("the ManagedCluster is still there (%v)", err)
	})
	must(t, fleet.client.Create(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.name}}))
	f.accept(true)
	f.awaitCondition(cluster.ConditionAvailable, metav1.ConditionTrue)
}

func TestLostIdentityIsReplaced(t *testing.T) {
	f := newCluster(t, "lost")
	f.join()
	was := f.identity()
	f.loseIdentity()
	// The hub approves it by itself, as the agent asks with its own certificate.
	testenv.Eventually(t, func() error {
		now := f.identity()
		if now[cluster.TLSCertKey] == "" || now[cluster.TLSCertKey] == was[cluster.TLSCertKey] || now[cluster.AgentNameKey] != was[cluster.AgentNameKey] {
			return fmt.Errorf("no new certificate of the agent %s: keys %d", was[cluster.AgentNameKey], len(now))
		}
		return nil
	})
	f.awaitCondition(cluster.ConditionCertificateRotated, metav1.ConditionTrue)
}

// loseIdentity deletes the agent's stored identity.
func (f *fleetCluster) loseIdentity() {
	f.t.Helper()
	must(f.t, env.Client().Delete(context.Background(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.options.Namespace, Name: cluster.HubKubeconfigSecret}}))
}

// shiftedClock is a clock that is ahead.
type shiftedClock struct {
	clock.RealClock
	by time.Duration
}

func (c shiftedClock) Now() time.Time                  { return c.RealClock.Now().Add(c.by) }
func (c shiftedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func TestCertificateIsRenewedBeforeItExpires(t *testing.T) {
	f := newCluster(t, "rotate")
	f.options.ClientCertExpirationSeconds = 3600
	f.join()
	was := f.identity()
	f.stopAgent()
	mc := f.get() // the agent's clock will be ahead of the hub's
	mc.Annotations = map[string]string{cluster.SkipClockSyncAnnotation: "true"}
	must(t, fleet.client.Update(t.Context(), mc))

	f.options.ClientCertExpirationSeconds = 0
	f.options.Clock = shiftedClock{by: 50 * time.Minute}
	f.start()
	testenv.Eventually(t, func() error {
		if now := f.identity(); now[cluster.TLSCertKey] == was[cluster.TLSCertKey] || now[cluster.TLSKeyKey] == was[cluster.TLSKeyKey] {
			return fmt.Errorf("no new certificate")
		}
		return nil
	})
	f.eventually(func(mc *clusterv1.ManagedCluster) error {
		c := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionCertificateRotated)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != "ClientCertificateUpdated" {
			return fmt.Errorf("condition %+v", c)
		}
		return nil
	})
	usernames := f.usernames()
	if want := cluster.CommonName(f.name, was[cluster.AgentNameKey]); !slices.Contains(usernames, want) {
		t.Errorf("requests came from %q, want one from %q", usernames, want)
	}
}

func TestCertificateIsRenewedWhenTheHubAsksForIt(t *testing.T) {
	f := newCluster(t, "renew")
	f.join()
	was := f.identity()
	for _, request := range []string{"first", "second"} {
		f.annotate(cluster.RenewCertificateAnnotation, request)
		f.eventually(func(mc *clusterv1.ManagedCluster) error {
			c := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionCertificateRotated)
			switch {
			case mc.Annotations[cluster.RenewCertificateAnnotation] != "":
				return fmt.Errorf("the request is not answered")
			case c == nil || c.Status != metav1.ConditionTrue:
				return fmt.Errorf("condition %+v", c)
			}
			return nil
		})
		now := f.identity()
		if now[cluster.TLSCertKey] == was[cluster.TLSCertKey] || now[cluster.AgentNameKey] != was[cluster.AgentNameKey] {
			t.Errorf("after the %s request: a certificate that is new: %t, of the agent %s, want a new one of %s",
				request, now[cluster.TLSCertKey] != was[cluster.TLSCertKey], now[cluster.AgentNameKey], was[cluster.AgentNameKey])
		}
		was = now
	}
	// Another change of the cluster is not a request.
	f.annotate("note", "x")
	if n := len(f.requests()); n != 3 {
		t.Errorf("%d certificate requests, want the first one and one for each time that it was asked", n)
	}
}

func (f *fleetCluster) annotate(key, value string) {
	f.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	must(f.t, fleet.client.Patch(context.Background(), f.get(), client.RawPatch(types.MergePatchType, patch)))
}

func TestExpiredIdentityIsReplacedWithTheBootstrapKubeconfig(t *testing.T) {
	f := newCluster(t, "expired")
	f.options.ClientCertExpirationSeconds = 3600
	clk := clocktesting.NewFakeClock(time.Now())
	f.options.Clock = clk
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // so that waits after failures end
		for ctx.Err() == nil {
			clk.Step(100 * time.Millisecond)
			time.Sleep(20 * time.Millisecond) // real time has to pass for the server
		}
	}()
	f.join()
	f.accept(false) // so that the agent can't renew its certificate
	f.awaitCondition(cluster.ConditionHubAccepted, metav1.ConditionFalse)
	clk.Step(2 * time.Hour)
	bootstrap := "system:bootstrap:" + f.token[:6]
	testenv.Eventually(t, func() error {
		if n := len(slices.DeleteFunc(f.usernames(), func(u string) bool { return u != bootstrap })); n != 2 {
			return fmt.Errorf("%d requests with the bootstrap kubeconfig, want the first one and one after the expiry", n)
		}
		return nil
	})
}

func TestHubOutage(t *testing.T) {
	f := newCluster(t, "outage")
	door := newDoor(t, toHub)
	f.writeBootstrap(door.url())
	f.join()
	door.close()
	lease := f.lease()
	door.reopen()
	f.patchStatus(func(s *clusterv1.ManagedClusterStatus) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: cluster.ConditionAvailable, Status: metav1.ConditionUnknown, Reason: cluster.ReasonLeaseUpdateStopped})
	})
	f.awaitCondition(cluster.ConditionAvailable, metav1.ConditionTrue)
	if f.lease().UID != lease.UID {
		t.Error("the lease was replaced")
	}
}

// Another way to the same hub is not a reason to register again.
func TestChangedBootstrapSecretLeadsToTheOtherEndpoint(t *testing.T) {
	f := newCluster(t, "moved")
	must(t, env.Client().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.options.Namespace}}))
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.options.Namespace, Name: cluster.BootstrapSecret},
		Data:       map[string][]byte{cluster.KubeconfigKey: f.bootstrapKubeconfig(fleet.url, "hub")},
	}
	must(t, env.Client().Create(t.Context(), secret))
	// The agent sees the first content as it starts, and knows the second for news.
	f.join()
	was := f.identity()
	door := newDoor(t, toHub)
	secret.Data[cluster.KubeconfigKey] = f.bootstrapKubeconfig(door.url(), "hub")
	must(t, env.Client().Update(t.Context(), secret))
	testenv.Eventually(t, func() error {
		if now := f.identity(); !strings.Contains(now[cluster.KubeconfigKey], door.address) || now[cluster.TLSCertKey] != was[cluster.TLSCertKey] {
			return fmt.Errorf("the identity is still for the first endpoint, or another one")
		}
		return nil
	})
	f.expectRequests(1)
}

func TestDeletedBootstrapSecretIsNoReasonToLeave(t *testing.T) {
	f := newCluster(t, "secretless")
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.options.Namespace, Name: cluster.BootstrapSecret},
		Data:       map[string][]byte{cluster.KubeconfigKey: f.bootstrapKubeconfig(fleet.url, "hub")},
	}
	must(t, env.Client().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.options.Namespace}}))
	must(t, env.Client().Create(t.Context(), secret))
	f.options.BootstrapKubeconfig = ""
	f.join()
	was, requests := f.identity(), len(f.requests())
	must(t, env.Client().Delete(t.Context(), secret))
	// Neither now nor after a restart, when there is nothing to compare with.
	for range 2 {
		f.patchStatus(func(s *clusterv1.ManagedClusterStatus) {
			meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: cluster.ConditionAvailable, Status: metav1.ConditionFalse, Reason: "Test"})
		})
		f.awaitCondition(cluster.ConditionAvailable, metav1.ConditionTrue)
		f.stopAgent()
		f.start()
	}
	if now := f.identity(); now[cluster.TLSCertKey] != was[cluster.TLSCertKey] || len(f.requests()) != requests {
		t.Errorf("the agent has asked for another identity (%d requests)", len(f.requests()))
	}
	// One that leads elsewhere counts, as if the first had been changed.
	secret.ResourceVersion = ""
	secret.Data[cluster.KubeconfigKey] = f.bootstrapKubeconfig(fleet.url, "another-name")
	must(t, env.Client().Create(t.Context(), secret))
	testenv.Eventually(t, func() error {
		if !strings.Contains(f.identity()[cluster.KubeconfigKey], "another-name") {
			return fmt.Errorf("the agent has not gone over to it")
		}
		return nil
	})
	f.expectRequests(requests) // it is the same hub
}

func TestWorkRunsOnceTheClusterIsAccepted(t *testing.T) {
	f := newCluster(t, "working")
	runs := make(chan work.Options, 10)
	f.options.AgentID = "klusterlet-1"
	f.options.Work = func(ctx context.Context, o work.Options) error {
		runs <- o
		<-ctx.Done()
		return nil
	}
	f.start()
	f.approve()
	f.accept(false)
	select {
	case <-runs:
		t.Fatal("works are carried out though the hub has not accepted the cluster")
	default:
	}
	f.accept(true)
	f.awaitCondition(cluster.ConditionAvailable, metav1.ConditionTrue)
	o := <-runs
	if o.ClusterName != f.name || o.AgentID != "klusterlet-1" || o.HubHost != fleet.url || o.ManagedCluster == nil {
		t.Errorf("got %+v", o)
	}
	c := env.ClientFor(t, o.Hub)
	must(t, c.List(t.Context(), &workv1.ManifestWorkList{}, client.InNamespace(f.name)))
}

func TestWorksAreCarriedOut(t *testing.T) {
	f := newCluster(t, "worker")
	f.join()
	manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":%q},"data":{"a":"b"}}`, f.name)
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "w"}}
	w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(manifest)}}}
	must(t, fleet.client.Create(t.Context(), w))
	testenv.Eventually(t, func() error {
		return env.Client().Get(context.Background(), client.ObjectKey{Namespace: "default", Name: f.name}, &corev1.ConfigMap{})
	})
	must(t, fleet.client.Delete(t.Context(), w))
	testenv.Eventually(t, func() error { // before the agent stops
		err := fleet.client.Get(context.Background(), client.ObjectKeyFromObject(w), w)
		if client.IgnoreNotFound(err) == nil && err != nil {
			return nil
		}
		return fmt.Errorf("the work is still there (%v)", err)
	})
}

func (f *fleetCluster) lease() *coordinationv1.Lease {
	f.t.Helper()
	lease := &coordinationv1.Lease{}
	must(f.t, fleet.client.Get(context.Background(), client.ObjectKey{Namespace: f.name, Name: cluster.LeaseName}, lease))
	return lease
}

// usernames are who made the cluster's certificate requests.
func (f *fleetCluster) usernames() []string {
	var all []string
	for _, r := range f.requests() {
		all = append(all, r.Spec.Username)
	}
	return all
}
