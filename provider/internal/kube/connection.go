package kube

import (
	"errors"
	"fmt"
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
	// Kubeconfig is a kubeconfig's content.
	Kubeconfig string
	// Context is the kubeconfig context to use instead of the current one.
	Context string

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

	// Token is a bearer token.
	Token string
	// ClientCertificate and ClientKey are PEM encoded.
	ClientCertificate, ClientKey string
	// Exec is a program that prints credentials.
	Exec *Exec
}

// Exec is a program that prints credentials as an ExecCredential object of
// client.authentication.k8s.io.
type Exec struct {
	APIVersion string
	Command    string
	Args       []string
	Env        map[string]string
}

// ErrNotConfigured tells that a connection names no server.
var ErrNotConfigured = errors.New("no API server is configured")

// IsZero reports whether nothing is set that names a server.
func (c Connection) IsZero() bool {
	return c.KubeconfigPath == "" && c.Kubeconfig == "" && c.Host == ""
}

// RESTConfig turns the connection into client-go's configuration. It reads
// files, but does not dial. A connection without a server is ErrNotConfigured:
// there is no fallback to localhost or to the default kubeconfig.
func (c Connection) RESTConfig() (*rest.Config, error) {
	if c.IsZero() {
		return nil, ErrNotConfigured
	}
	base, err := c.base()
	if err != nil {
		return nil, err
	}
	overrides, err := c.overrides()
	if err != nil {
		return nil, err
	}
	name := c.Context
	if name == "" {
		name = base.CurrentContext
	}
	if _, ok := base.Contexts[name]; !ok && (c.Context != "" || c.Host == "") {
		return nil, contextError(name, base, c.source())
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*base, name, overrides, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.source(), err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

func (c Connection) source() string {
	switch {
	case c.Kubeconfig != "":
		return "the kubeconfig content"
	case c.KubeconfigPath != "":
		return fmt.Sprintf("kubeconfig file %q", c.KubeconfigPath)
	default:
		return fmt.Sprintf("host %q", c.Host)
	}
}

// isPath reports whether what should be the content of a file looks like its
// path.
func isPath(content string) bool {
	return strings.Contains(content, "/") && !strings.ContainsAny(content, "\n{:")
}

func (c Connection) base() (*clientcmdapi.Config, error) {
	switch {
	case c.Kubeconfig != "":
		base, err := clientcmd.Load([]byte(c.Kubeconfig))
		if err != nil && isPath(c.Kubeconfig) {
			return nil, fmt.Errorf("read the kubeconfig content: %q is the path of a file and not its content; name it in kubeconfig_path, or read it with file()", c.Kubeconfig)
		}
		if err != nil {
			return nil, fmt.Errorf("read the kubeconfig content: it is not a kubeconfig: %w", err)
		}
		return base, nil
	case c.KubeconfigPath != "":
		var paths []string
		for _, path := range filepath.SplitList(c.KubeconfigPath) {
			path, err := expandHome(path)
			if err != nil {
				return nil, err
			}
			if _, err := os.Stat(path); err != nil {
				return nil, fmt.Errorf("read kubeconfig file %q: %w; check the path, or that whatever writes the file has run", path, err)
			}
			paths = append(paths, path)
		}
		base, err := (&clientcmd.ClientConfigLoadingRules{Precedence: paths, WarnIfAllMissing: false}).Load()
		if err != nil {
			return nil, fmt.Errorf("read kubeconfig file %q: %w", c.KubeconfigPath, err)
		}
		return base, nil
	default:
		return clientcmdapi.NewConfig(), nil
	}
}

func (c Connection) overrides() (*clientcmd.ConfigOverrides, error) {
	o := &clientcmd.ConfigOverrides{}
	if c.Host != "" {
		host, err := url.Parse(c.Host)
		if err != nil || host.Host == "" || (host.Scheme != "https" && host.Scheme != "http") {
			return nil, fmt.Errorf("host %q is not a URL such as https://hub.example.com:6443", c.Host)
		}
		o.ClusterInfo.Server = c.Host
	}
	if c.ProxyURL != "" {
		proxy, err := url.Parse(c.ProxyURL)
		if err != nil || proxy.Host == "" {
			return nil, fmt.Errorf("proxy_url %q is not a URL such as http://proxy.example.com:3128", c.ProxyURL)
		}
		o.ClusterInfo.ProxyURL = c.ProxyURL
	}
	o.ClusterInfo.CertificateAuthorityData = []byte(c.CA)
	o.ClusterInfo.InsecureSkipTLSVerify = c.Insecure
	o.ClusterInfo.TLSServerName = c.TLSServerName
	o.AuthInfo.Token = c.Token
	o.AuthInfo.ClientCertificateData = []byte(c.ClientCertificate)
	o.AuthInfo.ClientKeyData = []byte(c.ClientKey)
	if c.Exec != nil {
		exec := &clientcmdapi.ExecConfig{
			APIVersion:      c.Exec.APIVersion,
			Command:         c.Exec.Command,
			Args:            c.Exec.Args,
			InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}
		for name, value := range c.Exec.Env {
			exec.Env = append(exec.Env, clientcmdapi.ExecEnvVar{Name: name, Value: value})
		}
		slices.SortFunc(exec.Env, func(a, b clientcmdapi.ExecEnvVar) int { return strings.Compare(a.Name, b.Name) })
		o.AuthInfo.Exec = exec
	}
	return o, nil
}

func contextError(name string, base *clientcmdapi.Config, source string) error {
	var names []string
	for name := range base.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return fmt.Errorf("read %s: it has no contexts", source)
	case name == "":
		return fmt.Errorf("read %s: it has no current context; set context to one of %s", source, strings.Join(names, ", "))
	default:
		return fmt.Errorf("read %s: it has no context %q; it has %s", source, name, strings.Join(names, ", "))
	}
}

func expandHome(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("expanding %q: %w; write the path out", path, err)
	}
	return filepath.Join(home, rest), nil
}
