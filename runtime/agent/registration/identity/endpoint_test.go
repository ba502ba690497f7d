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

// Who may write the Secret of a bootstrap kubeconfig must not thereby run a
// program in the agent, read its files, or get its token sent about in clear.
func TestParseBootstrapRefusesWhatGivesMoreThanAccess(t *testing.T) {
	dir := t.TempDir()
	with := func(old, new string) string { return strings.Replace(bootstrap, old, new, 1) }
	server := `server: "https://hub:6443", certificate-authority: ca.crt`
	for _, tc := range []struct{ name, content, want string }{
		{"a server without TLS", with(server, `server: "http://hub:6443"`), "in clear"},
		{"a server without a scheme", with(server, `server: "hub:6443"`), "in clear"},
		{"a server by its name alone", with(server, `server: "hub"`), "in clear"},
		{"upper case and no TLS", with(server, `server: "HTTP://hub"`), "in clear"},
		{"a server that anybody may be", with(server, `server: "https://hub", insecure-skip-tls-verify: true`), "insecure-skip-tls-verify"},
		{"a program", with("token: abc", `exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/touch, args: [x], interactiveMode: Never}`), "exec"},
		{"a program and a token", with("token: abc", `token: abc, exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Never}`), "exec"},
		{"an authentication provider", with("token: abc", `auth-provider: {name: gcp}`), "auth-provider"},
		{"a token elsewhere", with("token: abc", `tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token`), "tokenFile"},
		{"a token above", with("token: abc", `tokenFile: ../token`), "tokenFile"},
		{"a token below and above", with("token: abc", `tokenFile: x/../../token`), "tokenFile"},
		{"a certificate elsewhere", with("token: abc", `client-certificate: /etc/x.crt, client-key: x.key`), "client-certificate"},
		{"a key elsewhere", with("token: abc", `client-certificate: x.crt, client-key: /etc/x.key`), "client-key"},
		{"an authority elsewhere", with("ca.crt", "/etc/passwd"), "certificate-authority"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := identity.ParseBootstrap([]byte(tc.content), dir)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, tc.want)
			}
			if _, err := identity.ParseBootstrap([]byte(tc.content), ""); err == nil {
				t.Error("in a Secret it is not refused")
			}
		})
	}
	if _, err := identity.ParseBootstrap([]byte(bootstrap), ""); err == nil || !strings.Contains(err.Error(), "certificate-authority") {
		t.Errorf("a Secret that names a file: got %v", err)
	}
}
