package hostile

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// get asks the hub for a path with somebody's credentials. The path is sent as
// it is, dots and all.
func get(t testing.TB, config *rest.Config, method, path string) (status int, body string) {
	t.Helper()
	c, err := rest.HTTPClientFor(config)
	testkit.Must(t, err)
	at, err := url.Parse(config.Host)
	testkit.Must(t, err)
	at.Opaque = "//" + at.Host + path
	response, err := c.Do((&http.Request{Method: method, URL: at, Header: http.Header{}}).WithContext(t.Context()))
	testkit.Must(t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	testkit.Must(t, err)
	return response.StatusCode, string(content)
}

// Who comes without credentials learns where the hub is and whether it lives.
func TestAnonymousRequests(t *testing.T) {
	nobody := hub.As(func(*rest.Config) {})
	for _, path := range []string{
		"/version", "/healthz", "/livez", "/readyz",
		"/api/v1/namespaces/kube-public/configmaps/cluster-info", "/api/v1/namespaces/kube-public/configmaps/muster-hub-info",
	} {
		if status, body := get(t, nobody, http.MethodGet, path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for _, path := range []string{
		"/", "/metrics", "/metrics/slis", "/configz", "/statusz", "/flagz", "/logs", "/debug/pprof/", "/debug/pprof/heap", "/debug/flags/v", "/debug/placements/", "/debug/placements/default/p", "/fleet/snapshot",
		"/openapi/v2", "/openapi/v3", "/openid/v1/jwks", "/.well-known/openid-configuration", "/api", "/apis", "/apis/cluster.open-cluster-management.io/v1/managedclusters",
		"/api/v1/namespaces/kube-public/configmaps", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
		"/api/v1/namespaces/kube-system/secrets", "/api/v1/namespaces/kube-public/configmaps/cluster-info/../../../kube-system/secrets",
		"/api/v1/namespaces/kube-public/configmaps/..%2f..%2fkube-system%2fsecrets", "//api/v1/secrets", "/api//v1/secrets", "/livez/../api/v1/secrets", "/readyz?verbose=1&exclude=../../api/v1/secrets/",
	} {
		status, body := get(t, nobody, http.MethodGet, path)
		var err error
		switch {
		case strings.Contains(body, "bootstrap-token") || strings.Contains(body, "SecretList"):
			err = fmt.Errorf("it got %d %s", status, body)
		case status < 300 && !strings.HasPrefix(path, "/readyz"):
			err = fmt.Errorf("it got %d", status)
		}
		harmless(t, "nobody in particular reads "+path, err)
	}
	for _, header := range []string{"X-Remote-User", "X-Remote-Group", "Impersonate-User", "Impersonate-Group"} {
		config := hub.As(func(c *rest.Config) {
			c.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
					r = r.Clone(r.Context())
					r.Header.Set(header, "system:masters")
					if strings.HasSuffix(header, "Group") {
						r.Header.Set(strings.TrimSuffix(header, "Group")+"User", "root")
					}
					return next.RoundTrip(r)
				})
			})
		})
		refused(t, "nobody in particular says to be somebody by "+header, testfleet.Client(t, config).List(context.Background(), &corev1.SecretList{}))
	}
}

// What every identity may do least of all: look into what is another's, and
// make itself more than it is.
func TestWhatIsAnothers(t *testing.T) {
	ctx := context.Background()
	agent := hub.Joined(t, "others-a", "a")
	hub.Joined(t, "others-b", "a")
	_, bound := hub.BootstrapToken(t, cluster.BoundBootstrapGroup("others-a"), nil)
	_, unbound := hub.BootstrapToken(t, cluster.BootstrapGroup, nil)
	tenant := hub.Tenant(t, "others-tenant", "tenant", rbacv1.PolicyRule{
		APIGroups: []string{cluster.GroupName}, Resources: []string{"placements"}, Verbs: []string{"*"},
	})
	for who, config := range map[string]*rest.Config{
		"an agent":               agent,
		"a bound token":          hub.WithToken(bound),
		"an unbound token":       hub.WithToken(unbound),
		"a tenant":               tenant,
		"nobody in particular":   hub.As(func(*rest.Config) {}),
		"a token that was never": hub.WithToken("aaaaaa.0123456789abcdef"),
	} {
		c := testfleet.Client(t, config)
		refused(t, who+" lists another cluster's works", c.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace("others-b")))
		refused(t, who+" lists all works", c.List(ctx, &workv1.ManifestWorkList{}))
		refused(t, who+" makes a work for another cluster", c.Create(ctx, newWork(t, "others-b", "w", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "x"}})))
		refused(t, who+" reads Secrets", c.List(ctx, &corev1.SecretList{}))
		refused(t, who+" reads bootstrap tokens", c.List(ctx, &corev1.SecretList{}, client.InNamespace(metav1.NamespaceSystem)))
		refused(t, who+" reads roles", c.List(ctx, &rbacv1.ClusterRoleList{}))
		refused(t, who+" makes itself an administrator", c.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "others"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: cluster.ManagedClustersGroup}},
		}))
		refused(t, who+" acts for another namespace's placements", c.Create(ctx, &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}))
		refused(t, who+" deletes a cluster", c.Delete(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "others-b"}}))
		if who != "an unbound token" { // which looks for its cluster before it makes one
			refused(t, who+" lists all clusters", c.List(ctx, &clusterv1.ManagedClusterList{}))
		}
		impersonating := rest.CopyConfig(config)
		impersonating.Impersonate = rest.ImpersonationConfig{UserName: "system:admin", Groups: []string{"system:masters"}}
		refused(t, who+" impersonates an administrator", testfleet.Client(t, impersonating).List(ctx, &corev1.SecretList{}))
	}
}

// Connections that send their request a byte at a time take nothing away from
// others.
func TestSlowConnections(t *testing.T) {
	at, err := url.Parse(hub.Admin.Host)
	testkit.Must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(hub.Admin.CAData)
	for range 200 {
		dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
		c, err := dialer.DialContext(t.Context(), "tcp", at.Host)
		testkit.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = io.WriteString(c, "GET /version HTTP/1.1\r\nHost: hub\r\nX-Slow: ")
		testkit.Must(t, err)
	}
	status, body := get(t, hub.As(func(*rest.Config) {}), http.MethodGet, "/version")
	if status != http.StatusOK {
		err = fmt.Errorf("the hub answers another one with %d %s", status, body)
	}
	harmless(t, "200 connections that never end their request", err)
}
