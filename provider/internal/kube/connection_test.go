package kube

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const twoContexts = `apiVersion: v1
kind: Config
clusters:
- {name: one, cluster: {server: "https://one:6443"}}
- {name: two, cluster: {server: "https://two:6443"}}
users:
- {name: admin, user: {token: from-the-file}}
contexts:
- {name: first, context: {cluster: one, user: admin}}
- {name: second, context: {cluster: two, user: admin}}
current-context: first
`

func TestConnectionFindsItsServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(twoContexts), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		connection  Connection
		host, token string
	}{
		"current context":         {Connection{KubeconfigPath: path}, "https://one:6443", "from-the-file"},
		"content":                 {Connection{Kubeconfig: twoContexts}, "https://one:6443", "from-the-file"},
		"named context":           {Connection{KubeconfigPath: path, Context: "second"}, "https://two:6443", "from-the-file"},
		"host over the file's":    {Connection{KubeconfigPath: path, Host: "https://other"}, "https://other", "from-the-file"},
		"token over the file's":   {Connection{KubeconfigPath: path, Token: "mine"}, "https://one:6443", "mine"},
		"host alone":              {Connection{Host: "https://other", Token: "mine"}, "https://other", "mine"},
		"host without credential": {Connection{Host: "https://other"}, "https://other", ""},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := test.connection.RESTConfig()
			if err != nil {
				t.Fatal(err)
			}
			if config.Host != test.host || config.BearerToken != test.token {
				t.Errorf("got %s with %q, want %s with %q", config.Host, config.BearerToken, test.host, test.token)
			}
		})
	}
}

func TestConnectionRunsAProgramForCredentials(t *testing.T) {
	config, err := Connection{Host: "https://hub", Exec: &Exec{
		APIVersion: "client.authentication.k8s.io/v1", Command: "aws", Args: []string{"eks", "get-token"}, Env: map[string]string{"B": "2", "A": "1"},
	}}.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	if p := config.ExecProvider; p == nil || p.Command != "aws" || len(p.Args) != 2 || p.Env[0].Name != "A" {
		t.Errorf("got %+v", config.ExecProvider)
	}
}

func TestConnectionErrorsNameWhatIsWrong(t *testing.T) {
	for name, test := range map[string]struct {
		connection Connection
		want       string
	}{
		"missing file":    {Connection{KubeconfigPath: "/does/not/exist"}, `"/does/not/exist"`},
		"missing context": {Connection{Kubeconfig: twoContexts, Context: "third"}, `no context "third"; it has first, second`},
		"a path":          {Connection{Kubeconfig: "/home/me/.kube/config"}, `"/home/me/.kube/config" is the path of a file`},
		"rubbish":         {Connection{Kubeconfig: "rubbish"}, "not a kubeconfig"},
		"empty":           {Connection{Kubeconfig: "apiVersion: v1\nkind: Config\n"}, "has no contexts"},
		"host":            {Connection{Host: "hub:6443"}, `"hub:6443" is not a URL`},
		"proxy":           {Connection{Host: "https://hub", ProxyURL: "nope"}, `"nope" is not a URL`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := test.connection.RESTConfig()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want it to say %q", err, test.want)
			}
		})
	}
}

func TestConnectionNeverFallsBackToAServer(t *testing.T) {
	t.Setenv("KUBECONFIG", "/somebody/elses")
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	if _, err := (Connection{Token: "x"}).RESTConfig(); !errors.Is(err, ErrNotConfigured) {
		t.Errorf("got %v, want %v", err, ErrNotConfigured)
	}
}
