package kubeconfig_test

import (
	"net/netip"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
)

func TestContainRefusesWhatRunsReadsOrListens(t *testing.T) {
	for want, change := range map[string]func(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo){
		"": func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {},
		"from a program": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{Command: "/bin/sh", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}
		},
		"(exec or auth-provider)": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "oidc"}
		},
		"tokenFile names a file":              func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.TokenFile = "/etc/shadow" },
		"client-certificate names a file":     func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.ClientCertificate = "a.crt" },
		"client-key names a file":             func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.ClientKey = "a.key" },
		"certificate-authority names a file":  func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthority = "/etc/hosts" },
		"no credentials":                      func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Token = "" },
		"insecure-skip-tls-verify":            func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.InsecureSkipTLSVerify = true },
		`the scheme "http"`:                   func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "http://api.example.com" },
		`the scheme "unix"`:                   func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "unix://x/var/run/docker.sock" },
		"not a URL of an API server":          func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://user:pw@api.example.com" },
		"proxy-url is not a URL of a proxy":   func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.ProxyURL = "file:///etc/passwd" },
		"certificate authority can't be read": func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthorityData = []byte("x") },
		"more than 65536 are not read":        func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Token = strings.Repeat("x", 70000) },
	} {
		config := kubeconfig.Config{Cluster: "c", User: "u", Server: "https://api.example.com:6443", Token: "s3cret"}.Object()
		change(config.Clusters["c"], config.AuthInfos["u"])
		content, err := clientcmd.Write(*config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = kubeconfig.Contain(content)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q, got %v", want, err)
		}
		if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "pw")) {
			t.Errorf("the message has a secret: %v", err)
		}
	}
	for _, content := range []string{"", "s3cret", "{}", "current-context: x", "- a\n- b", "clusters: &a [*a]"} {
		if _, err := kubeconfig.Contain([]byte(content)); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// Contexts that are not the current one are never used.
func TestContainTakesTheCurrentContextAlone(t *testing.T) {
	config := kubeconfig.Config{Cluster: "c", User: "u", Server: "https://api.example.com:6443", Token: "t", ProxyURL: "http://proxy:3128"}.Object()
	config.AuthInfos["other"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: "x", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}}
	content, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubeconfig.Contain(content)
	if err != nil || c.Server.Host != "api.example.com:6443" || c.Proxy.Host != "proxy:3128" || c.Config.BearerToken != "t" || c.Config.ExecProvider != nil {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestAddressesThatTheHubDoesNotConnectTo(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("10.0.0.7")}
	for address, want := range map[string]string{
		"192.0.2.1": "", "10.0.0.8": "", "2001:db8::1": "", "100.64.0.1": "",
		"127.0.0.1": "own machine", "127.8.9.10": "own machine", "::1": "own machine", "0.0.0.0": "own machine", "::": "own machine",
		"::ffff:127.0.0.1": "own machine", "64:ff9b::7f00:1": "own machine", "2002:7f00:1::": "own machine", "10.0.0.7": "own machine",
		"169.254.169.254": "link-local", "fe80::1": "link-local", "fe80::1%eth0": "link-local", "::ffff:169.254.169.254": "link-local", "64:ff9b::a9fe:a9fe": "link-local",
		"fd00:ec2::254": "metadata", "100.100.100.200": "metadata", "168.63.129.16": "metadata",
		"224.0.0.1": "no single machine", "255.255.255.255": "no single machine", "ff02::1": "no single machine",
	} {
		if got := kubeconfig.RefusedAddress(netip.MustParseAddr(address), own, false); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
	}
	for address, refused := range map[string]bool{"127.0.0.1": false, "::1": false, "10.0.0.7": false, "169.254.169.254": true, "168.63.129.16": true} {
		if got := kubeconfig.RefusedAddress(netip.MustParseAddr(address), own, true); (got != "") != refused {
			t.Errorf("%s with loopback: got %q", address, got)
		}
	}
	for host, refused := range map[string]bool{
		"localhost": true, "LOCALHOST.": true, "x.localhost": true, "127.0.0.1:6443": true, "[::1]:6443": true, "::1": true, "169.254.169.254": true,
		"api.example.com": false, "10.1.1.1": false,
	} {
		if got := kubeconfig.RefusedHost(host, own, false); (got != "") != refused {
			t.Errorf("%s: got %q", host, got)
		}
	}
}
