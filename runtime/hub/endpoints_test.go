package hub_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/pki"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

// movingHub is a hub of its own that is started again and again.
type movingHub struct {
	t    *testing.T
	dir  string
	port int
}

func newMovingHub(t *testing.T) *movingHub {
	t.Helper()
	at, err := net.ResolveTCPAddr("tcp", testkit.FreeAddress(t))
	testkit.Must(t, err)
	return &movingHub{t: t, dir: t.TempDir(), port: at.Port}
}

func (h *movingHub) url(host string) string { return fmt.Sprintf("https://%s:%d", host, h.port) }

// run runs the hub with options for as long as do takes, which gets the
// administrator and what is published.
func (h *movingHub) run(o hub.Options, do func(admin *rest.Config, e hubinfo.Endpoints)) {
	h.t.Helper()
	o.DataDir, o.SecurePort = h.dir, h.port
	ready, stop, err := start(o)
	testkit.Must(h.t, err)
	defer func() { testkit.Must(h.t, stop()) }()
	config, err := clientcmd.BuildConfigFromFlags("", ready.Kubeconfig)
	testkit.Must(h.t, err)
	config.Host = h.url("127.0.0.1") // no name server knows the others
	published := &corev1.ConfigMap{}
	testkit.Must(h.t, clientFor(h.t, config).Get(context.Background(), types.NamespacedName{Namespace: "kube-public", Name: hubinfo.EndpointsName}, published))
	e, err := hubinfo.ParseEndpoints(published.Data)
	testkit.Must(h.t, err)
	do(config, e)
}

// verifies asks the hub for its version, as a client that trusts ca.
func (h *movingHub) verifies(host string, ca []byte) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", h.port), &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12})
	if err == nil {
		_ = conn.Close()
	}
	return err
}

func TestAHubSaysWhereItIs(t *testing.T) {
	h := newMovingHub(t)
	var uid string
	h.run(hub.Options{}, func(admin *rest.Config, e hubinfo.Endpoints) {
		uid = e.HubUID
		system := &corev1.Namespace{}
		testkit.Must(t, clientFor(t, admin).Get(t.Context(), types.NamespacedName{Name: "kube-system"}, system))
		if uid != string(system.UID) || len(e.URLs) > 0 || e.Generation != 1 || !hubinfo.SameBundle(e.CABundle, admin.CAData) {
			t.Errorf("a hub without an external URL publishes %+v", e)
		}
		info := &corev1.ConfigMap{}
		testkit.Must(t, clientFor(t, admin).Get(t.Context(), types.NamespacedName{Namespace: "kube-public", Name: hubinfo.Name}, info))
		if !hubinfo.Has(info.Data, hubinfo.EndpointPropagation) {
			t.Errorf("it announces %v", info.Data)
		}
	})
	old, moved := hub.Options{ExternalURL: h.url("old.example.org")}, hub.Options{ExternalURL: h.url("new.example.org"), AdditionalExternalURLs: []string{h.url("old.example.org")}}
	h.run(old, func(_ *rest.Config, e hubinfo.Endpoints) {
		if e.Generation != 2 || !slices.Equal(e.URLs, []string{old.ExternalURL}) || !slices.Equal(e.FormerURLs, []string{h.url("127.0.0.1")}) || e.HubUID != uid {
			t.Errorf("with an external URL: %+v", e)
		}
	})
	for range 2 { // and nothing is news after another start
		h.run(moved, func(admin *rest.Config, e hubinfo.Endpoints) {
			if e.Generation != 3 || !slices.Equal(e.URLs, []string{moved.ExternalURL, old.ExternalURL}) {
				t.Errorf("with two: %+v", e)
			}
			for _, host := range []string{"old.example.org", "new.example.org", "127.0.0.1", "localhost"} {
				testkit.Must(t, h.verifies(host, e.CABundle))
			}
			info := &corev1.ConfigMap{}
			testkit.Must(t, clientFor(t, admin).Get(t.Context(), types.NamespacedName{Namespace: "kube-public", Name: hubinfo.ClusterInfo}, info))
			if !strings.Contains(info.Data["kubeconfig"], moved.ExternalURL) {
				t.Errorf("new agents get %s", info.Data["kubeconfig"])
			}
		})
	}
	h.run(hub.Options{ExternalURL: moved.ExternalURL}, func(admin *rest.Config, e hubinfo.Endpoints) {
		if e.Generation != 4 || !slices.Equal(e.FormerURLs, []string{h.url("127.0.0.1"), old.ExternalURL}) {
			t.Errorf("with the old one withdrawn: %+v", e)
		}
		// What somebody writes into it ends with the next start, and doesn't stop that.
		c := clientFor(t, admin)
		published := &corev1.ConfigMap{}
		testkit.Must(t, c.Get(t.Context(), types.NamespacedName{Namespace: "kube-public", Name: hubinfo.EndpointsName}, published))
		published.Data["urls"], published.Data["hubUID"] = "nonsense", "another"
		testkit.Must(t, c.Update(t.Context(), published))
	})
	h.run(hub.Options{ExternalURL: moved.ExternalURL}, func(_ *rest.Config, e hubinfo.Endpoints) {
		if e.Generation <= 4 || !slices.Equal(e.URLs, []string{moved.ExternalURL}) || e.HubUID != uid {
			t.Errorf("after nonsense: %+v", e)
		}
	})
}

func TestAHubServesACertificateOfAnotherAuthority(t *testing.T) {
	h := newMovingHub(t)
	dir := t.TempDir()
	other, err := pki.LoadOrCreateAuthority(dir, "company", time.Now())
	testkit.Must(t, err)
	cert, key, err := other.Issue(pki.Request{CommonName: "hub", Hosts: []string{"hub.company.example"}, Lifetime: time.Hour}, time.Now())
	testkit.Must(t, err)
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	testkit.Must(t, os.WriteFile(certFile, cert, 0o600))
	testkit.Must(t, os.WriteFile(keyFile, key, 0o600))
	o := hub.Options{
		ExternalURL:       h.url("hub.company.example"),
		NamedCertificates: []controlplane.NamedCertificate{{CertFile: certFile, KeyFile: keyFile}},
		ExternalCAFiles:   []string{other.CertFile},
	}
	h.run(o, func(admin *rest.Config, e hubinfo.Endpoints) {
		testkit.Must(t, h.verifies("hub.company.example", other.CertPEM))
		if h.verifies("hub.company.example", admin.CAData) == nil {
			t.Error("the hub serves its own certificate for the company's name")
		}
		testkit.Must(t, h.verifies("localhost", admin.CAData))
		for _, host := range []string{"hub.company.example", "localhost"} {
			testkit.Must(t, h.verifies(host, e.CABundle))
		}
		// The next authority is published without a restart.
		next, err := pki.LoadOrCreateAuthority(t.TempDir(), "company 2", time.Now())
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(other.CertFile, slices.Concat(other.CertPEM, next.CertPEM), 0o600))
		published := types.NamespacedName{Namespace: "kube-public", Name: hubinfo.EndpointsName}
		testkit.Eventually(t, func() error {
			m := &corev1.ConfigMap{}
			if err := clientFor(t, admin).Get(t.Context(), published, m); err != nil {
				return err
			}
			now, err := hubinfo.ParseEndpoints(m.Data)
			if err == nil && !bytes.Contains(now.CABundle, bytes.TrimSpace(next.CertPEM)) {
				err = fmt.Errorf("the hub publishes %s", now.CABundle)
			}
			return err
		})
	})
	o.ExternalCAFiles = nil
	h.run(o, func(admin *rest.Config, e hubinfo.Endpoints) { // the authority can be withdrawn
		if !hubinfo.SameBundle(e.CABundle, admin.CAData) || e.Generation != 3 {
			t.Errorf("got %+v", e)
		}
	})
}

func TestAHubChangesItsAuthority(t *testing.T) {
	h := newMovingHub(t)
	var before *rest.Config
	h.run(hub.Options{}, func(admin *rest.Config, _ hubinfo.Endpoints) { before = admin })
	_, err := pki.Replace(filepath.Join(h.dir, "pki"), "muster-hub-ca", time.Now())
	testkit.Must(t, err)
	h.run(hub.Options{}, func(admin *rest.Config, e hubinfo.Endpoints) {
		// An administrator with the old kubeconfig: old trust, old certificate.
		_, err := clientsetFor(t, before).Discovery().ServerVersion()
		testkit.Must(t, err)
		testkit.Must(t, clientFor(t, before).Get(t.Context(), types.NamespacedName{Name: "kube-system"}, &corev1.Namespace{}))
		if e.Generation != 2 || !hubinfo.SameBundle(e.CABundle, admin.CAData) || hubinfo.SameBundle(admin.CAData, before.CAData) {
			t.Errorf("got generation %d", e.Generation)
		}
		certificates, err := hubinfo.ParseBundle(e.CABundle)
		testkit.Must(t, err)
		if len(certificates) != 2 || certificates[0].Subject.CommonName == "muster-hub-ca" || certificates[1].Subject.CommonName != "muster-hub-ca" {
			t.Error("the new authority, which signs, is not the first of two")
		}
	})
	testkit.Must(t, pki.Retire(filepath.Join(h.dir, "pki")))
	h.run(hub.Options{}, func(_ *rest.Config, e hubinfo.Endpoints) {
		if h.verifies("localhost", before.CAData) == nil {
			t.Error("who trusts the old authority can still verify the hub")
		}
		old := rest.CopyConfig(before)
		old.CAData = e.CABundle
		if err := clientFor(t, old).Get(t.Context(), types.NamespacedName{Name: "kube-system"}, &corev1.Namespace{}); err == nil || !strings.Contains(err.Error(), "nauthorized") {
			t.Errorf("a certificate of the old authority: got %v, want Unauthorized", err)
		}
	})
}

func TestWhatAHubCannotPublish(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	testkit.Must(t, os.WriteFile(empty, nil, 0o600))
	for _, tc := range []struct {
		name string
		o    hub.Options
		want string
	}{
		{"more URLs without the first", hub.Options{AdditionalExternalURLs: []string{"https://a"}}, "--external-url"},
		{"a URL without TLS", hub.Options{ExternalURL: "https://a", AdditionalExternalURLs: []string{"http://b"}}, `--additional-external-urls "http://b"`},
		{"a file that is not there", hub.Options{ExternalCAFiles: []string{"/nowhere.pem"}}, "--external-ca-files /nowhere.pem"},
		{"a file without a certificate", hub.Options{ExternalCAFiles: []string{empty}}, "no certificate"},
		{"no pair", hub.Options{NamedCertificates: []controlplane.NamedCertificate{{CertFile: empty, KeyFile: empty}}}, "--tls-sni-cert-key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.o.DataDir = t.TempDir()
			_, stop, err := start(tc.o)
			if err == nil {
				_ = stop()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %s", err, tc.want)
			}
		})
	}
}
