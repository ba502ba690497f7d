package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

func TestProxyLeadsToItsClustersAlone(t *testing.T) {
	config := clientcmdapi.NewConfig()
	config.Clusters["paris"] = &clientcmdapi.Cluster{Server: "https://paris.example"}
	config.Clusters["rome"] = &clientcmdapi.Cluster{Server: "https://same.example:6443"}
	config.Clusters["oslo"] = &clientcmdapi.Cluster{Server: "https://same.example:6443/oslo"}
	config.AuthInfos["jo"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: "muster"}}
	config.Contexts["jo@paris"] = &clientcmdapi.Context{Cluster: "paris", AuthInfo: "jo"}
	flags := &accessFlags{cloud: "team-a/prod", timeout: time.Minute}
	x := &proxy{
		session: &accessSession{flags: flags}, password: "secret", ctx: t.Context(), clusters: map[string]*proxied{},
	}
	server := httptest.NewServer(x)
	t.Cleanup(server.Close)
	testkit.Must(t, x.lead(config, server.Listener.Addr(), false))
	for _, c := range x.clusters { // which is how a test knows that it got there
		c.request = func(context.Context) (string, error) { return "", fmt.Errorf("asked for %s", c.name) }
	}
	want := "http://paris:secret@" + server.Listener.Addr().String()
	env := config.AuthInfos["jo"].Exec.Env
	if got := config.Clusters["paris"].ProxyURL; got != want || len(env) != 1 || env[0].Value != want {
		t.Errorf("the kubeconfig has %q, and the plugin %+v; want %q", got, env, want)
	}
	const connect, paris, same = http.MethodConnect, "paris.example:443", "same.example:6443"
	for name, tc := range map[string]struct {
		method, host, user, password, want string
	}{
		"by name":                {connect, paris, "paris", "secret", "502 cluster paris: asked for paris"},
		"by address":             {connect, paris, "muster", "secret", "502 cluster paris: asked for paris"},
		"one of two":             {connect, same, "oslo", "secret", "502 cluster oslo: asked for oslo"},
		"either of two":          {connect, same, "muster", "secret", "403 2 clusters have the address"},
		"elsewhere":              {connect, "example.com:443", "paris", "secret", "403 this proxy does not lead to ex"},
		"another's address":      {connect, same, "paris", "secret", "403 this proxy does not lead"},
		"another port":           {connect, "paris.example:22", "paris", "secret", "403 this proxy does not lead"},
		"no password":            {connect, paris, "", "", "407 Proxy Authentication Required"},
		"another password":       {connect, paris, "paris", "secret ", "407 Proxy Authentication Required"},
		"a request to be passed": {"GET", "http://paris.example/", "paris", "secret", "405 Method Not Allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
			testkit.Must(t, err)
			defer conn.Close()
			credentials := base64.StdEncoding.EncodeToString([]byte(tc.user + ":" + tc.password))
			_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nProxy-Authorization: basic %s\r\n\r\n",
				tc.method, tc.host, credentials)
			testkit.Must(t, err)
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			testkit.Must(t, err)
			_ = answer.Body.Close()
			if !strings.HasPrefix(answer.Status, tc.want) {
				t.Errorf("got %q, want %q", answer.Status, tc.want)
			}
		})
	}
}

func TestProxyFlags(t *testing.T) {
	for name, tc := range map[string]struct{ args, want string }{
		"no cloud":          {"access proxy", "say which logical cloud: --cloud NAMESPACE/NAME"},
		"a word too many":   {"access proxy --cloud a/b kubectl get pods", `"kubectl" is no flag: write`},
		"other addresses":   {"access proxy --cloud a/b --address 0.0.0.0:80", "so it listens on this machine alone"},
		"no port":           {"access proxy --cloud a/b --address 127.0.0.1", "write an address and a port"},
		"standard output":   {"access proxy --cloud a/b --output -", "name a file"},
		"proxy and command": {"access proxy --cloud a/b --print-proxy -- true", "--print-proxy goes without a command"},
		"an existing file":  {"access proxy --cloud a/b --output accessproxy_test.go", "--force replaces it"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newRootCommand()
			cmd.SetArgs(strings.Fields(tc.args))
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
