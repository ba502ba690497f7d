// Package identity is about who an agent is on its hub: the names in its
// certificate, the Secret that keeps certificate and key in the managed
// cluster, and the rules by which a stored identity is still good.
package identity

import (
	"bytes"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Endpoint is where the current context of a kubeconfig leads.
type Endpoint struct {
	// Cluster is the name of the context's cluster entry.
	Cluster string
	// Server is the URL of the API server, exactly as written.
	Server string
	// CAData is the PEM bundle to verify the server by.
	CAData []byte
	// ProxyURL is the proxy to go through.
	ProxyURL string
	// TLSServerName is the name to expect in the server's certificate in place
	// of its host name.
	TLSServerName string
}

// Equal tells whether both lead to the same hub in the same way.
func (e Endpoint) Equal(other Endpoint) bool {
	return e.difference(other) == ""
}

// difference names the first field in which they differ.
func (e Endpoint) difference(other Endpoint) string {
	switch {
	case e.Server != other.Server:
		return fmt.Sprintf("the hub's address is now %s and was %s", other.Server, e.Server)
	case e.ProxyURL != other.ProxyURL:
		return fmt.Sprintf("the hub's proxy is now %q and was %q", other.ProxyURL, e.ProxyURL)
	case !bytes.Equal(e.CAData, other.CAData):
		return "the hub's certificate authority is another one"
	case e.Cluster != other.Cluster:
		return fmt.Sprintf("the hub's name in the bootstrap kubeconfig is now %q and was %q", other.Cluster, e.Cluster)
	}
	return ""
}

// Bootstrap is the access to the hub with which a cluster asks to be
// registered.
type Bootstrap struct {
	Endpoint Endpoint
	// Config is the whole kubeconfig as a client's configuration.
	Config *rest.Config
	// Content is the kubeconfig itself.
	Content []byte
}

// ParseBootstrap reads a bootstrap kubeconfig. dir is the folder that relative
// file names in it start from. Errors don't repeat the content, which is
// secret.
func ParseBootstrap(content []byte, dir string) (*Bootstrap, error) {
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, fmt.Errorf("it is not a kubeconfig: %w", err)
	}
	for _, c := range config.Clusters {
		c.LocationOfOrigin = dir + string(os.PathSeparator) + "kubeconfig"
	}
	for _, a := range config.AuthInfos {
		a.LocationOfOrigin = dir + string(os.PathSeparator) + "kubeconfig"
	}
	if dir != "" {
		if err := clientcmd.ResolveLocalPaths(config); err != nil {
			return nil, fmt.Errorf("resolve the file names in it: %w", err)
		}
	}
	endpoint, err := currentEndpoint(config)
	if err != nil {
		return nil, err
	}
	client, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("it is not a usable kubeconfig: %w", err)
	}
	client.QPS = -1
	return &Bootstrap{Endpoint: endpoint, Config: client, Content: content}, nil
}

func currentEndpoint(config *clientcmdapi.Config) (Endpoint, error) {
	context, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return Endpoint{}, fmt.Errorf("its current-context %q is not one of its contexts: set current-context to the context of the hub", config.CurrentContext)
	}
	c, ok := config.Clusters[context.Cluster]
	if !ok {
		return Endpoint{}, fmt.Errorf("its context %q names the cluster %q, which it does not define", config.CurrentContext, context.Cluster)
	}
	if c.Server == "" {
		return Endpoint{}, fmt.Errorf("its cluster %q has no server: give the URL of the hub", context.Cluster)
	}
	e := Endpoint{
		Cluster:       context.Cluster,
		Server:        c.Server,
		CAData:        c.CertificateAuthorityData,
		ProxyURL:      c.ProxyURL,
		TLSServerName: c.TLSServerName,
	}
	if len(e.CAData) == 0 && c.CertificateAuthority != "" {
		data, err := os.ReadFile(c.CertificateAuthority)
		if err != nil {
			return Endpoint{}, fmt.Errorf("read the certificate authority of its cluster %q: %w", context.Cluster, err)
		}
		e.CAData = data
	}
	return e, nil
}
