package clusterimport

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
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
	managed, err := connect(c, "", loopback, 2*time.Second)
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
	err := ask(t, to(t, server.URL, "", server), true)
	if !errors.Is(err, errRedirect) {
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

// secured is a server with an authority of its own, and a kubeconfig that trusts it.
func secured(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *kubeconfig.Contained) {
	t.Helper()
	ca, certificate := testkit.Serving(t)
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	content, err := kubeconfig.Config{Cluster: "c", User: "u", Server: server.URL, Token: "s3cret", CAData: ca}.YAML()
	testkit.Must(t, err)
	c, err := kubeconfig.Contain(content)
	testkit.Must(t, err)
	return server, c
}

// A server that another authority vouches for gets no request, and so no credentials,
// whatever else the kubeconfig trusts. It is so for each connection.
func TestAnotherAuthorityGetsNothing(t *testing.T) {
	var asked atomic.Int32
	answer := func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"u"}}`))
	}
	_, honest := secured(t, answer)
	_, impostor := secured(t, answer)
	read := func(c *connection) error {
		return c.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, &corev1.Namespace{})
	}
	first, err := connect(honest, "", true, 5*time.Second)
	testkit.Must(t, err)
	testkit.Must(t, read(first))
	pin := first.authority.is()
	first.close()
	if err := kubeconfig.CheckAuthority(pin); err != nil || !strings.HasPrefix(pin, "sha256:") {
		t.Fatalf("the authority is %q: %v", pin, err)
	}
	again, err := connect(honest, pin, true, 5*time.Second)
	testkit.Must(t, err)
	testkit.Must(t, read(again))
	again.close()
	// Trusting both authorities makes the one no other.
	both := *impostor
	both.Config = rest.CopyConfig(impostor.Config)
	both.Config.TLSClientConfig.CAData = append(slices.Clone(honest.Config.TLSClientConfig.CAData), impostor.Config.TLSClientConfig.CAData...)
	for what, to := range map[string]*kubeconfig.Contained{"another": impostor, "another beside the right one": &both} {
		before := asked.Load()
		c, err := connect(to, pin, true, 5*time.Second)
		testkit.Must(t, err)
		var refused *authorityError
		if err := read(c); !errors.As(err, &refused) || refused.wanted != pin || refused.found == pin {
			t.Errorf("%s: %v", what, err)
		}
		if asked.Load() != before {
			t.Errorf("%s: the server got a request", what)
		}
		c.close()
	}
	// Within one attempt the authority of the first connection counts.
	moved, err := connect(honest, "", true, 5*time.Second)
	testkit.Must(t, err)
	testkit.Must(t, read(moved))
	if err := moved.authority.verify(tls.ConnectionState{}, "127.0.0.1"); err == nil {
		t.Error("a connection without a certificate is taken")
	}
	moved.close()
}

// Whatever a server answers, conditions describe the failure in the hub's words, and the
// log has the details, bounded.
func TestConditionsRepeatNothing(t *testing.T) {
	banner := "SSH-2.0-OpenSSH_9.9 \x1b[31m" + strings.Repeat("x", 1000)
	answers := map[string]http.HandlerFunc{
		"text":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(banner)) },
		"not found": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, banner, http.StatusNotFound) },
		"failure":   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, banner, http.StatusInternalServerError) },
		"teapot":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, banner, http.StatusTeapot) },
		"status": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": banner, "reason": "OpenSSH", "code": 422})
		},
		"redirect": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://OpenSSH")
			w.WriteHeader(http.StatusFound)
		},
		"no TLS within": func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
		"a UID that is none": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]any{"name": "kube-system", "uid": banner}})
		},
	}
	c := &Controller{options: Options{AllowLoopback: true}.complete()}
	for what, answer := range answers {
		_, to := secured(t, answer)
		_, _, err := c.reach(t.Context(), to, "")
		if err == nil {
			t.Errorf("%s: the server is taken for an API server", what)
			continue
		}
		_, message := explain(to, err)
		install := explainInstall(&stepError{"apply the Deployment x", err})
		if text := message + install; strings.Contains(text, "SSH") || strings.Contains(text, "xxx") || !strings.Contains(install, "apply the Deployment x") {
			t.Errorf("%s: the conditions say %s", what, text)
		}
		if detail := printable(err).Error(); len(detail) > maxDetail || strings.Contains(detail, "\x1b") {
			t.Errorf("%s: the log says %q", what, detail)
		}
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
