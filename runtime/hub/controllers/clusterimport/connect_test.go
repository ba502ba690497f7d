package clusterimport

import (
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// to is a kubeconfig that leads to a server.
func to(t *testing.T, server, proxy string, from *httptest.Server) *kubeconfig.Contained {
	t.Helper()
	config := kubeconfig.Config{Cluster: "c", User: "u", Server: server, ProxyURL: proxy, Token: "s3cret"}
	if from != nil {
		config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: from.Certificate().Raw})
	}
	content, err := config.YAML()
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubeconfig.Contain(content)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask asks a server what an import asks first.
func ask(t *testing.T, c *kubeconfig.Contained, loopback bool) error {
	t.Helper()
	managed, err := connect(c, loopback, 2*time.Second)
	if err != nil {
		return err
	}
	defer managed.close()
	return managed.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, &corev1.Namespace{})
}

func TestOnlyTheClusterIsConnectedTo(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Redirect(w, &http.Request{}, "https://169.254.169.254/latest/meta-data", http.StatusFound)
	}))
	defer server.Close()
	proxied := strings.TrimPrefix(server.URL, "https://")
	for name, c := range map[string]*kubeconfig.Contained{
		"loopback":          to(t, server.URL, "", server),
		"localhost":         to(t, strings.Replace(server.URL, "127.0.0.1", "localhost", 1), "", server),
		"metadata":          to(t, "https://169.254.169.254", "", server),
		"a proxy on itself": to(t, "https://192.0.2.1:6443", "http://"+proxied, server),
	} {
		err := ask(t, c, false)
		var refused *refusedError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if reason, message := explain(c, err); reason != muster.ReasonKubeconfigRefused || !strings.Contains(message, "--cluster-import-allow-loopback") {
			t.Errorf("%s is explained as %s: %s", name, reason, message)
		}
	}
	if asked.Load() > 0 {
		t.Errorf("%d requests have arrived", asked.Load())
	}
	if err := ask(t, to(t, server.URL, "", server), true); err == nil || !strings.Contains(err.Error(), "redirect to 169.254.169.254") {
		t.Errorf("a redirect: %v", err)
	}
}

// A name is only known to lead to the hub itself once it is looked up, and it may lead
// elsewhere the next time: so the address counts to which a connection is made.
func TestAddressesAreCheckedWhenTheConnectionIsMade(t *testing.T) {
	for address, refused := range map[string]bool{"127.0.0.1:443": true, "[::1]:443": true, "169.254.169.254:80": true, "192.0.2.1:443": false, "nonsense": true} {
		if err := checkAddress(address, nil, false); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	name := ""
	for _, candidate := range []string{"ip6-localhost", "localhost.localdomain", "localhost4", "ip6-loopback"} {
		if addresses, err := net.LookupHost(candidate); err == nil && netip.MustParseAddr(addresses[0]).IsLoopback() {
			name = candidate
		}
	}
	if name == "" {
		t.Skip("this machine has no name for its loopback but localhost")
	}
	var refused *refusedError
	if err := ask(t, to(t, "https://"+name+":6443", "", nil), false); !errors.As(err, &refused) {
		t.Errorf("%s: %v", name, err)
	}
}

func TestAnswersAreLimited(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"`))
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	if err := ask(t, to(t, server.URL, "", server), true); err == nil || !strings.Contains(err.Error(), "more than 4194304 bytes") {
		t.Errorf("an answer without end: %v", err)
	}
}

func TestAServerThatHangsIsGivenUp(t *testing.T) {
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	c := to(t, "https://"+hung.Addr().String(), "", nil)
	err = ask(t, c, true)
	if reason, message := explain(c, err); err == nil || reason != muster.ReasonUnreachable || !strings.Contains(message, "did not answer in time") {
		t.Errorf("%v is explained as %s: %s", err, reason, message)
	}
}

func TestPausesGrowAndDiffer(t *testing.T) {
	b := newBackoff(time.Second, 10*time.Second)
	r := reconcile.Request{}
	for i, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		if got := b.When(r); got < want*time.Second || got > want*time.Second*5/4+1 {
			t.Errorf("pause %d is %s, want %ds and up to a quarter more", i, got, want)
		}
	}
	b.Forget(r)
	if got := b.When(r); got > 2*time.Second {
		t.Errorf("after a success the pause is %s", got)
	}
}
