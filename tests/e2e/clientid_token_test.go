package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	musterapi "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// An agent that has deleted its bootstrap Secret goes on with its own certificate. When
// that is lost as well it says once what it needs, asks for nothing, and takes what
// it gets.
func TestAgentGoesOnWithoutItsBootstrapSecret(t *testing.T) {
	w := newRegistering(t)
	managed, at := w.newCluster()
	w.inNamespace(managed)
	w.prepare("paris-17", "store-17")
	_, bootstrap := w.token("aaaaa1", w.hub.server, w.hub.ca, map[string]string{cluster.TokenClientIDsAnnotation: "store-17"})
	w.putBootstrap(managed, bootstrap)
	flags := []string{"--client-id", "store-17", "--delete-bootstrap-secret"}
	agent := w.agent(at, flags...)
	w.joined("paris-17", managed)
	w.logs(agent, "deleted the bootstrap Secret")
	testkit.Must(t, agent.Kill())

	agent = w.agent(at, flags...)
	w.logs(agent, "the cluster is registered with the hub")
	if n := len(w.requests("paris-17")); n != 1 {
		t.Errorf("%d certificate requests after a restart, want one", n)
	}
	testkit.Must(t, agent.Kill())

	lost := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.AgentNamespace, Name: cluster.HubKubeconfigSecret}}
	testkit.Must(t, managed.Delete(t.Context(), lost))
	agent = w.agent(at, flags...)
	w.logs(agent, "muster rejoin CLUSTER")
	if n := strings.Count(agent.Log(), "cannot register"); n != 1 {
		t.Errorf("it says so %d times:\n%s", n, agent.Log())
	}
	if n := len(w.requests("paris-17")); n != 1 {
		t.Errorf("%d certificate requests, though it has nothing to ask with", n)
	}
	// The token from before is still good for the client ID, and makes no second agent.
	w.putBootstrap(managed, bootstrap)
	w.logs(agent, "waiting for the hub to approve the certificate request")
	w.heardAbout("has joined before")
	w.putBootstrap(managed, w.command("rejoin", "paris-17"))
	w.logs(agent, "deleted the bootstrap Secret")
	w.joined("paris-17", managed)
}

// heardAbout waits for an event of a certificate request.
func (w registering) heardAbout(words string) {
	w.Helper()
	testkit.EventuallyThat(w.T, "the administrator hears why it waits", func() error {
		list := &corev1.EventList{}
		testkit.Must(w.T, w.hub.List(w.Context(), list))
		for _, e := range list.Items {
			if e.InvolvedObject.Kind == "CertificateSigningRequest" && strings.Contains(e.Message, words) {
				return nil
			}
		}
		return fmt.Errorf("none of %d events says %q", len(list.Items), words)
	})
}

// gate is the hub behind a proxy that ends TLS, which is enough for tokens. It holds
// requests for certificates until it is opened.
type gate struct {
	server string
	ca     []byte
	held   chan struct{}
	open   chan struct{}
}

func newGate(t *testing.T, hub side) *gate {
	t.Helper()
	target, err := url.Parse(hub.server)
	testkit.Must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(hub.ca)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1 // watches
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	g := &gate{held: make(chan struct{}, 100), open: make(chan struct{})}
	s := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/certificatesigningrequests") {
			g.held <- struct{}{}
			select {
			case <-g.open:
			case <-r.Context().Done():
				return
			}
		}
		proxy.ServeHTTP(out, r)
	}))
	t.Cleanup(s.CloseClientConnections)
	g.server, g.ca = s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return g
}

// A token ends after the hub has registered the cluster, and before the agent has
// asked for its certificate.
func TestTokenEndsBetweenRegistrationAndRequest(t *testing.T) {
	w := newRegistering(t)
	managed, at := w.newCluster()
	w.inNamespace(managed)
	w.prepare("paris-17", "store-17")
	g := newGate(t, w.hub)
	named := map[string]string{cluster.TokenClientIDsAnnotation: "store-17"}
	token, bootstrap := w.token("aaaaa2", g.server, g.ca, named)
	w.putBootstrap(managed, bootstrap)
	agent := w.agent(at, "--client-id", "store-17")
	<-g.held
	w.expire(token)
	w.gone(token)
	close(g.open)
	w.logs(agent, "they may have expired: make a new token and put it in")
	if n := len(w.requests("paris-17")); n != 0 {
		t.Errorf("%d certificate requests by a token that has ended", n)
	}
	if uid := w.managedCluster("paris-17").Annotations[musterapi.ClusterUIDAnnotation]; uid != w.uid(managed) {
		t.Errorf("the registration did not come first: %q", uid)
	}
	// It goes on where it was, with another token.
	_, bootstrap = w.token("aaaaa3", w.hub.server, w.hub.ca, named)
	w.putBootstrap(managed, bootstrap)
	w.joined("paris-17", managed)
	if n := len(w.requests("paris-17")); n != 1 {
		t.Errorf("%d certificate requests, want one", n)
	}
}

// gone waits until the hub has removed a token that has ended.
func (w registering) gone(token *corev1.Secret) {
	w.Helper()
	testkit.EventuallyThat(w.T, "the token is removed", func() error {
		if err := w.hub.Get(w.Context(), client.ObjectKeyFromObject(token), &corev1.Secret{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%v)", err)
		}
		return nil
	})
}

// A token ends while its request waits for an administrator. The agent asks again with
// another token, and still takes the answer to the first request.
func TestTokenEndsBetweenRequestAndApproval(t *testing.T) {
	w := newRegistering(t)
	managed, at := w.newCluster()
	w.inNamespace(managed)
	name := musterapi.DerivedClusterName("store-17")
	token, bootstrap := w.token("aaaaa4", w.hub.server, w.hub.ca, nil)
	w.putBootstrap(managed, bootstrap)
	agent := w.agent(at, "--client-id", "store-17")
	w.logs(agent, "waiting for the hub to approve the certificate request")
	w.expire(token)
	w.gone(token)
	requests := w.requests(name)
	if len(requests) != 1 {
		t.Fatalf("%d certificate requests, want one", len(requests))
	}
	_, bootstrap = w.token("aaaaa5", w.hub.server, w.hub.ca, nil)
	w.putBootstrap(managed, bootstrap)
	testkit.EventuallyThat(t, "the agent asks with the other token", func() error {
		if n := len(w.requests(name)); n != 2 {
			return fmt.Errorf("%d certificate requests", n)
		}
		return nil
	})
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"hubAcceptsClient":true}}`))
	testkit.Must(t, w.hub.Patch(t.Context(), w.managedCluster(name), patch))
	w.approve(requests[0].Name)
	w.joined(name, managed)
}
