package identity_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
)

const bootstrap = `
apiVersion: v1
kind: Config
current-context: b
contexts: [{name: b, context: {cluster: hub, user: u}}]
clusters: [{name: hub, cluster: {server: "https://hub:6443", certificate-authority: ca.crt, proxy-url: "http://proxy:3128"}}]
users: [{name: u, user: {token: abc}}]
`

func TestParseBootstrap(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("the ca"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := identity.ParseBootstrap([]byte(bootstrap), dir)
	if err != nil {
		t.Fatal(err)
	}
	want := identity.Endpoint{Cluster: "hub", Server: "https://hub:6443", CAData: []byte("the ca"), ProxyURL: "http://proxy:3128"}
	if !b.Endpoint.Equal(want) {
		t.Errorf("endpoint %+v, want %+v", b.Endpoint, want)
	}
	if b.Config.BearerToken != "abc" || b.Config.Host != "https://hub:6443" || b.Config.QPS >= 0 {
		t.Errorf("client for %s with the token %q at %v per second", b.Config.Host, b.Config.BearerToken, b.Config.QPS)
	}
}

func TestParseBootstrapErrorsNameTheTrouble(t *testing.T) {
	for _, tc := range []struct{ name, content, want string }{
		{"no kubeconfig", "{", "not a kubeconfig"},
		{"no current context", strings.Replace(bootstrap, "current-context: b", "", 1), "current-context"},
		{"a context of a cluster that is not there", strings.Replace(bootstrap, "cluster: hub,", "cluster: other,", 1), `"other", which it does not define`},
		{"no server", strings.Replace(bootstrap, `server: "https://hub:6443", `, "", 1), "has no server"},
		{"no such certificate authority", bootstrap, "certificate authority"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := identity.ParseBootstrap([]byte(tc.content), t.TempDir())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}
