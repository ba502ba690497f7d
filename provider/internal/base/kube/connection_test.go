package kube

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
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

func TestOwnCredentialsReplaceThoseOfTheKubeconfig(t *testing.T) {
	const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: one, cluster: {server: "https://one:6443", insecure-skip-tls-verify: true, tls-server-name: one}}]
users: [{name: admin, user: {token: from-the-file, client-certificate-data: Yw==, client-key-data: aw==, as: boss, as-groups: [bosses]}}, {name: joe, user: {token: joes}}]
contexts: [{name: first, context: {cluster: one, user: admin}}]
current-context: first
`
	for name, test := range map[string]struct {
		connection Connection
		want       func(*rest.Config) bool
	}{
		"none": {Connection{}, func(c *rest.Config) bool {
			return c.BearerToken == "from-the-file" && string(c.CertData) == "c" && c.Impersonate.UserName == "boss"
		}},
		"token": {Connection{Token: "mine"}, func(c *rest.Config) bool {
			return c.BearerToken == "mine" && c.CertData == nil && c.Impersonate.UserName == ""
		}},
		"password": {Connection{Username: "u", Password: "p"}, func(c *rest.Config) bool {
			return c.Username == "u" && c.Password == "p" && c.BearerToken == "" && c.CertData == nil
		}},
		"program": {Connection{Exec: &Exec{Command: "x", APIVersion: "client.authentication.k8s.io/v1"}}, func(c *rest.Config) bool {
			return c.ExecProvider != nil && c.ExecProvider.StdinUnavailable && c.BearerToken == ""
		}},
		"impersonation alone": {Connection{Impersonate: &Impersonate{User: "jane", Groups: []string{"devs"}}}, func(c *rest.Config) bool {
			return c.BearerToken == "from-the-file" && c.Impersonate.UserName == "jane" && slices.Equal(c.Impersonate.Groups, []string{"devs"})
		}},
		"no groups of another": {Connection{Impersonate: &Impersonate{User: "jane"}}, func(c *rest.Config) bool { return len(c.Impersonate.Groups) == 0 }},
		"authority":            {Connection{CA: "ca"}, func(c *rest.Config) bool { return string(c.CAData) == "ca" && !c.Insecure && c.ServerName == "one" }},
		"another host":         {Connection{Host: "https://two"}, func(c *rest.Config) bool { return c.Host == "https://two" && c.ServerName == "" }},
		"another user":         {Connection{ContextUser: "joe"}, func(c *rest.Config) bool { return c.BearerToken == "joes" && c.Host == "https://one:6443" }},
	} {
		t.Run(name, func(t *testing.T) {
			test.connection.Kubeconfig = kubeconfig
			config, err := test.connection.RESTConfig()
			if err != nil {
				t.Fatal(err)
			}
			if !test.want(config) {
				t.Errorf("got %+v", config)
			}
		})
	}
}

func TestConnectionMergesFiles(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	for path, text := range map[string]string{
		one: "apiVersion: v1\nkind: Config\nclusters: [{name: one, cluster: {server: \"https://one\"}}]\n",
		two: "apiVersion: v1\nkind: Config\nusers: [{name: joe, user: {token: joes}}]\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nowhere := filepath.Join(dir, "nowhere")
	chosen := Connection{ContextCluster: "one", ContextUser: "joe"}
	for name, test := range map[string]struct {
		with func(*Connection)
		want string
	}{
		"list":             {with: func(c *Connection) { c.KubeconfigPaths = []string{one, two} }},
		"list in one text": {with: func(c *Connection) { c.KubeconfigPath = one + string(filepath.ListSeparator) + two }},
		"one of a text is not there": {with: func(c *Connection) {
			c.KubeconfigPath = strings.Join([]string{one, nowhere, two}, string(filepath.ListSeparator))
		}},
		"one of a list is not there": {func(c *Connection) { c.KubeconfigPaths = []string{one, nowhere, two} }, "nowhere"},
		"none of a text is there": {func(c *Connection) {
			c.KubeconfigPath, c.Origin = nowhere+string(filepath.ListSeparator)+nowhere, "the environment variable KUBECONFIG"
		}, `nowhere" of the environment variable KUBECONFIG`},
		"a user that is nowhere":       {func(c *Connection) { c.KubeconfigPaths, c.ContextUser = []string{one, two}, "jim" }, `has no user "jim"; it has joe`},
		"a cluster that is nowhere":    {func(c *Connection) { c.KubeconfigPaths, c.ContextCluster = []string{one, two}, "x" }, `has no cluster "x"; it has one`},
		"a context without kubeconfig": {func(c *Connection) { c.Host = "https://one" }, "choose in a kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			connection := chosen
			test.with(&connection)
			config, err := connection.RESTConfig()
			switch {
			case test.want == "" && (err != nil || config.Host != "https://one" || config.BearerToken != "joes"):
				t.Errorf("got %+v and %v", config, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestConnectionOfAPod(t *testing.T) {
	dir := t.TempDir()
	environment := map[string]string{"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
	getenv := func(name string) string { return environment[name] }
	connection := Connection{InCluster: true, Impersonate: &Impersonate{User: "jane"}}
	if _, err := connection.inCluster(dir, getenv); err == nil || !strings.Contains(err.Error(), "in_cluster only works in a pod") {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"token", "ca.crt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := connection.inCluster(dir, getenv)
	if err != nil {
		t.Fatal(err)
	}
	// The file and not only the token: Kubernetes renews it.
	if config.Host != "https://[fd00::1]:443" || config.BearerTokenFile != filepath.Join(dir, "token") || config.CAFile != filepath.Join(dir, "ca.crt") || config.Impersonate.UserName != "jane" {
		t.Errorf("got %+v", config)
	}
	if _, err := connection.inCluster(dir, func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "KUBERNETES_SERVICE_HOST") {
		t.Errorf("got %v", err)
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
