package kube

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Connection says how to reach an API server. What is left empty is taken from
// the kubeconfig, if there is one; what is set overrides it.
type Connection struct {
	// KubeconfigPath names a kubeconfig file, or several separated like PATH. A
	// leading ~/ stands for the home directory.
	KubeconfigPath string
	// KubeconfigPaths are files to merge, in place of KubeconfigPath.
	KubeconfigPaths []string
	// Kubeconfig is a kubeconfig's content.
	Kubeconfig string
	// Context is the kubeconfig context to use instead of the current one.
	Context string
	// ContextCluster and ContextUser are entries of the kubeconfig to use instead
	// of those of the context.
	ContextCluster, ContextUser string
	// InCluster takes the server and the service account of the pod that this
	// process runs in.
	InCluster bool

	// Host is the URL of the server.
	Host string
	// CA is a PEM bundle to verify the server by.
	CA string
	// TLSServerName is the name to expect in the server's certificate.
	TLSServerName string
	// Insecure switches verification of the server off.
	Insecure bool
	// ProxyURL is the proxy to go through.
	ProxyURL string

	// Token is a bearer token. Like every credential below it replaces those of
	// the kubeconfig as a whole.
	Token string
	// ClientCertificate and ClientKey are PEM encoded.
	ClientCertificate, ClientKey string
	// Username and Password are for basic authentication.
	Username, Password string
	// Exec is a program that prints credentials.
	Exec *Exec

	// Impersonate is the identity to act as.
	Impersonate *Impersonate

	// Origin says where the kubeconfig path comes from when the configuration
	// does not say it, such as "the environment variable KUBECONFIG".
	Origin string
}

// Exec is a program that prints credentials as an ExecCredential object of
// client.authentication.k8s.io.
type Exec struct {
	APIVersion string
	Command    string
	Args       []string
	Env        map[string]string
}

// Impersonate is an identity to act as. The server checks whether that is
// allowed.
type Impersonate struct {
	User, UID string
	Groups    []string
	Extra     map[string][]string
}

// ErrNotConfigured tells that a connection names no server.
var ErrNotConfigured = errors.New("no API server is configured")

// IsZero reports whether nothing is set that names a server.
func (c Connection) IsZero() bool {
	return c.KubeconfigPath == "" && len(c.KubeconfigPaths) == 0 && c.Kubeconfig == "" && c.Host == "" && !c.InCluster
}

// RESTConfig turns the connection into client-go's configuration. It reads
// files, but does not dial. A connection without a server is ErrNotConfigured:
// there is no fallback to localhost or to the default kubeconfig.
func (c Connection) RESTConfig() (*rest.Config, error) {
	if c.IsZero() {
		return nil, ErrNotConfigured
	}
	var (
		config *rest.Config
		err    error
	)
	if c.InCluster {
		config, err = c.inCluster(serviceAccountDir, os.Getenv)
	} else {
		config, err = c.fromKubeconfig()
	}
	if err != nil {
		return nil, err
	}
	if config.ExecProvider != nil {
		// Terraform owns the terminal.
		config.ExecProvider.StdinUnavailable = true
		config.ExecProvider.StdinUnavailableMessage = "a Terraform provider can't ask for input; log in before, or " +
			"use credentials that need none"
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// fromKubeconfig is the server that the kubeconfig and the other settings name.
// An empty kubeconfig stands in where only a host is set.
func (c Connection) fromKubeconfig() (*rest.Config, error) {
	base, err := c.base()
	if err != nil {
		return nil, err
	}
	cluster, user, err := c.entries(base)
	if err != nil {
		return nil, err
	}
	if err := c.overrideCluster(cluster); err != nil {
		return nil, err
	}
	c.overrideUser(user)
	const name = "connection"
	effective := clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{name: cluster},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: user},
		Contexts:  map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(effective, name, &clientcmd.ConfigOverrides{},
		nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.source(), err)
	}
	return config, nil
}

// overrideCluster sets what the connection says about the server.
func (c Connection) overrideCluster(cluster *clientcmdapi.Cluster) error {
	if c.Host != "" {
		host, err := url.Parse(c.Host)
		if err != nil || host.Host == "" || (host.Scheme != "https" && host.Scheme != "http") {
			return fmt.Errorf("host %q is not a URL such as https://hub.example.com:6443", c.Host)
		}
		cluster.Server = c.Host
		cluster.TLSServerName = "" // That is the other server's.
	}
	if cluster.Server == "" {
		return fmt.Errorf("read %s: its cluster has no server; add one, or set host", c.source())
	}
	if c.TLSServerName != "" {
		cluster.TLSServerName = c.TLSServerName
	}
	if c.ProxyURL != "" {
		proxy, err := url.Parse(c.ProxyURL)
		if err != nil || proxy.Host == "" {
			return fmt.Errorf("proxy_url %q is not a URL such as http://proxy.example.com:3128", c.ProxyURL)
		}
		cluster.ProxyURL = c.ProxyURL
	}
	switch {
	case c.Insecure:
		cluster.InsecureSkipTLSVerify = true
		cluster.CertificateAuthority, cluster.CertificateAuthorityData = "", nil
	case c.CA != "":
		cluster.InsecureSkipTLSVerify = false
		cluster.CertificateAuthority, cluster.CertificateAuthorityData = "", []byte(c.CA)
	}
	return nil
}

// overrideUser sets the connection's own credentials. They replace those of the
// kubeconfig: what is left of these would be sent along.
func (c Connection) overrideUser(user *clientcmdapi.AuthInfo) {
	if c.hasCredentials() {
		*user = clientcmdapi.AuthInfo{
			Token:                 c.Token,
			ClientCertificateData: []byte(c.ClientCertificate), ClientKeyData: []byte(c.ClientKey),
			Username: c.Username, Password: c.Password,
			Exec: c.Exec.config(),
		}
	}
	if c.Impersonate != nil {
		user.Impersonate, user.ImpersonateUID = c.Impersonate.User, c.Impersonate.UID
		user.ImpersonateGroups, user.ImpersonateUserExtra = c.Impersonate.Groups, c.Impersonate.Extra
	}
}

func (c Connection) hasCredentials() bool {
	return c.Token != "" || c.ClientCertificate != "" || c.Username != "" || c.Exec != nil
}

// config is nil for nil.
func (e *Exec) config() *clientcmdapi.ExecConfig {
	if e == nil {
		return nil
	}
	config := &clientcmdapi.ExecConfig{
		APIVersion: e.APIVersion, Command: e.Command, Args: e.Args,
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}
	for name, value := range e.Env {
		config.Env = append(config.Env, clientcmdapi.ExecEnvVar{Name: name, Value: value})
	}
	slices.SortFunc(config.Env, func(a, b clientcmdapi.ExecEnvVar) int { return strings.Compare(a.Name, b.Name) })
	return config
}

// serviceAccountDir is where Kubernetes puts a pod's credentials.
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// inCluster is the server of the cluster that this process runs in. The token is
// read again when it is renewed.
func (c Connection) inCluster(dir string, getenv func(string) string) (*rest.Config, error) {
	const hint = "in_cluster only works in a pod of Kubernetes that has a service account's token"
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, fmt.Errorf("%s, and here KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set", hint)
	}
	token, ca := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	text, err := os.ReadFile(token)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", hint, err)
	}
	if _, err := os.Stat(ca); err != nil {
		return nil, fmt.Errorf("%s: %w", hint, err)
	}
	config := &rest.Config{
		Host:            "https://" + net.JoinHostPort(host, port),
		BearerToken:     string(text),
		BearerTokenFile: token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: ca, ServerName: c.TLSServerName},
	}
	if c.Impersonate != nil {
		config.Impersonate = rest.ImpersonationConfig{
			UserName: c.Impersonate.User, UID: c.Impersonate.UID,
			Groups: c.Impersonate.Groups, Extra: c.Impersonate.Extra,
		}
	}
	return config, nil
}
