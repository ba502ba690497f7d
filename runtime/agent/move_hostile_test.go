package agent_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/pki"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

// impostor is a server with an authority of its own that claims to be the hub: it
// shows what the hub shows, and takes everything.
func impostor(t *testing.T, f *fleetCluster) (server string, ca []byte) {
	t.Helper()
	a, err := pki.LoadOrCreateAuthority(t.TempDir(), "impostor", time.Now())
	must(t, err)
	certPEM, keyPEM, err := a.Issue(pki.Request{CommonName: "x", Hosts: []string{"127.0.0.1"}, Lifetime: time.Hour}, time.Now())
	must(t, err)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	must(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var o client.Object
		switch {
		case strings.HasSuffix(r.URL.Path, hubinfo.EndpointsName):
			config := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
			_ = fleet.client.Get(context.Background(), client.ObjectKey{Namespace: "kube-public", Name: hubinfo.EndpointsName}, config)
			config.APIVersion, config.Kind = "v1", "ConfigMap"
			o = config
		case strings.Contains(r.URL.Path, "managedclusters"):
			mc := &clusterv1.ManagedCluster{}
			_ = fleet.client.Get(context.Background(), client.ObjectKey{Name: f.name}, mc)
			mc.APIVersion, mc.Kind = "cluster.open-cluster-management.io/v1", "ManagedCluster"
			o = mc
		default:
			lease := &coordinationv1.Lease{}
			_ = fleet.client.Get(context.Background(), client.ObjectKey{Namespace: f.name, Name: cluster.LeaseName}, lease)
			lease.APIVersion, lease.Kind = "coordination.k8s.io/v1", "Lease"
			o = lease
		}
		_ = json.NewEncoder(w).Encode(o)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, a.CertPEM
}

// What the hub publishes may be wrong, by mistake or on purpose. The agent stays
// where it is, says why, and goes on; once it is right, the agent follows.
func TestAgentStaysWhenTheNewEndpointIsNotItsHub(t *testing.T) {
	h := newMovingHub(t)
	other := fleet // the hub that the other tests share
	h.run(h.before())
	f := h.member("stays")
	f.start()
	f.awaitEndpoint(metav1.ConditionTrue, muster.ReasonEndpointCurrent)
	config := &corev1.ConfigMap{}
	must(t, fleet.client.Get(t.Context(), client.ObjectKey{Namespace: "kube-public", Name: hubinfo.EndpointsName}, config))
	good := config.Data
	forged, forgedCA := impostor(t, f)
	both := func(ca []byte) string { return good["ca.crt"] + "\n" + string(ca) }
	for _, tc := range []struct {
		name   string
		data   map[string]string
		reason string
		says   string
	}{
		{"another hub", map[string]string{"urls": other.url, "ca.crt": both(other.ca)}, muster.ReasonEndpointRefusesCertificate, "it is another hub"},
		{"an impostor that knows everything", map[string]string{"urls": forged, "ca.crt": both(forgedCA)}, muster.ReasonAnotherHub, "does not arrive"},
		{"a server of an authority that is not published", map[string]string{"urls": forged}, muster.ReasonEndpointUntrusted, "--external-ca-files"},
		{"nothing listens", map[string]string{"urls": "https://127.0.0.1:1"}, muster.ReasonEndpointUnreachable, "https://127.0.0.1:1"},
		{"another UID", map[string]string{"hubUID": "another"}, muster.ReasonAnotherHub, "another"},
		{"no TLS", map[string]string{"urls": "http://127.0.0.1:1"}, muster.ReasonEndpointsInvalid, "http://127.0.0.1:1"},
		{"nonsense", map[string]string{"ca.crt": "nonsense"}, muster.ReasonEndpointsInvalid, "ca.crt"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			publish(t, func(data map[string]string) {
				for k, v := range good {
					data[k] = v
				}
				data["formerURLs"], data["generation"] = h.old.url(), "9"
				for k, v := range tc.data {
					data[k] = v
				}
			})
			f.t = t
			f.awaitEndpoint(metav1.ConditionFalse, tc.reason, "generation 1:", tc.says)
			if got := f.leadsTo(); got != h.old.url() {
				t.Errorf("the bootstrap kubeconfig leads to %s", got)
			}
			if id := f.identity()[cluster.KubeconfigKey]; !strings.Contains(id, h.old.url()) || strings.Contains(id, forged) {
				t.Error("the agent has left its hub")
			}
			f.expectRequests(1)
		})
	}
	f.t = t
	h.run(h.after())
	f.awaitEndpoint(metav1.ConditionTrue, muster.ReasonEndpointCurrent, h.new.url())
	f.expectRequests(1)
}

// The agent is killed after the first of the two writes of a move, as it looks
// from outside: its identity leads to the new endpoint, and the bootstrap kubeconfig to the
// old one.
func TestAKillBetweenTheWritesOfAMoveDoesNoHarm(t *testing.T) {
	h := newMovingHub(t)
	h.run(h.before())
	f := h.member("killed")
	f.start()
	f.awaitEndpoint(metav1.ConditionTrue, muster.ReasonEndpointCurrent)
	h.run(h.after())
	f.awaitEndpoint(metav1.ConditionTrue, muster.ReasonEndpointCurrent, h.new.url())
	f.stopAgent()
	f.putBootstrap(h.old.url())
	h.old.close()
	f.startBeating()
	testenv.Eventually(t, func() error {
		if got := f.leadsTo(); got != h.new.url() {
			return fmt.Errorf("the bootstrap kubeconfig leads to %s, want %s", got, h.new.url())
		}
		return nil
	})
	f.expectRequests(1)
}

// An agent was away while its hub moved, and the old endpoint is gone when it comes
// back. A bootstrap kubeconfig that leads to the new one, with a token that nobody
// knows any more, brings it back as the same agent.
func TestAnAgentThatMissedTheMoveComesBackWithoutRegistering(t *testing.T) {
	h := newMovingHub(t)
	h.run(h.before())
	f := h.member("missed")
	f.start()
	f.awaitEndpoint(metav1.ConditionTrue, muster.ReasonEndpointCurrent)
	f.stopAgent()
	identity := f.identity()
	h.run(hub.Options{ExternalURL: h.new.url()})
	h.old.close()
	f.start()
	f.token = "aaaaaa.aaaaaaaaaaaaaaaa"
	f.putBootstrap(h.new.url())
	f.awaitEndpoint(metav1.ConditionTrue, muster.ReasonEndpointCurrent, h.new.url())
	f.expectRequests(1)
	if f.identity()[cluster.TLSCertKey] != identity[cluster.TLSCertKey] {
		t.Error("the agent has another certificate")
	}
	// And a file or Secret that nobody rewrites is not a reason to register either.
	f.stopAgent()
	f.putBootstrap(h.old.url())
	f.startBeating()
	f.expectRequests(1)
}

// A new endpoint that is lost again within a day is not a dead end, and one that comes
// and goes does not make the agent go back and forth with it.
func TestAnAgentGoesBackWhenTheNewEndpointIsLost(t *testing.T) {
	h := newMovingHub(t)
	clk := clocktesting.NewFakeClock(time.Now())
	h.clock = clk // a hub with another one takes the agent's for wrong
	h.run(h.before())
	f := h.member("back")
	f.options.Clock = clk
	f.start()
	step := func(reason string, status metav1.ConditionStatus, says string) {
		t.Helper()
		f.eventually(func(mc *clusterv1.ManagedCluster) error {
			clk.Step(time.Second)
			c := meta.FindStatusCondition(mc.Status.Conditions, muster.ConditionHubEndpointCurrent)
			if c == nil || !strings.Contains(reason, c.Reason) || c.Status != status || !strings.Contains(c.Message, says) {
				return fmt.Errorf("the condition is %+v, want %s", c, reason)
			}
			return nil
		})
	}
	step(muster.ReasonEndpointCurrent, metav1.ConditionTrue, h.old.url())
	h.run(h.after())
	step(muster.ReasonEndpointCurrent, metav1.ConditionTrue, h.new.url())
	h.new.close()
	// The steps of the clock may bring the next attempt before the first report is read.
	step(muster.ReasonFellBack+" or "+muster.ReasonEndpointUnreachable, metav1.ConditionFalse, h.old.url())
	h.new.reopen()
	step(muster.ReasonEndpointCurrent, metav1.ConditionTrue, h.new.url())
	f.expectRequests(1)
}

// The hub gets another authority of its own. Agents follow, and get a certificate of
// the new one, as themselves. Then the old one can be retired.
func TestAgentsFollowAnotherAuthorityOfTheHub(t *testing.T) {
	h := newMovingHub(t)
	h.run(h.before())
	f := h.member("authority")
	f.start()
	f.awaitEndpoint(metav1.ConditionTrue, muster.ReasonEndpointCurrent, "generation 1:")
	before := f.identity()
	h.halt()
	_, err := pki.Replace(h.dir+"/pki", "muster-hub-ca", time.Now())
	must(t, err)
	h.run(h.before())
	f.awaitEndpoint(metav1.ConditionTrue, muster.ReasonEndpointCurrent, "generation 2:")
	f.expectRequests(2) // the second is a renewal
	for _, r := range f.requests() {
		if strings.HasPrefix(r.Spec.Username, "system:bootstrap:") && len(f.requests()) > 2 {
			t.Error("the agent has registered again")
		}
	}
	if f.identity()[cluster.AgentNameKey] != before[cluster.AgentNameKey] || f.identity()[cluster.TLSCertKey] == before[cluster.TLSCertKey] {
		t.Error("the agent is another one, or has its old certificate")
	}
	h.halt()
	must(t, pki.Retire(h.dir+"/pki"))
	h.run(h.before())
	f.awaitEndpoint(metav1.ConditionTrue, muster.ReasonEndpointCurrent, "generation 3:")
	f.expectRequests(2)
}

// A bootstrap kubeconfig that leads to another hub is the owner's wish to leave this
// one. Nothing of what the agent knew of it counts there.
func TestABootstrapKubeconfigOfAnotherHubIsRegisteredWith(t *testing.T) {
	h := newMovingHub(t)
	other := fleet
	h.run(h.before())
	f := h.member("leaves")
	f.start()
	f.awaitEndpoint(metav1.ConditionTrue, muster.ReasonEndpointCurrent)
	fleet = other
	f.token = fleet.bootstrapToken(t, cluster.BoundBootstrapGroup(f.name))
	f.putBootstrap(other.url)
	f.approve()
	f.accept(true)
	f.awaitEndpoint(metav1.ConditionTrue, muster.ReasonEndpointCurrent, other.url)
	if place := f.identity()[muster.PlaceKey]; strings.Contains(place, h.old.url()) {
		t.Errorf("the agent takes the hub that it has left for the same: %s", place)
	}
}
