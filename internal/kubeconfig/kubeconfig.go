// Package kubeconfig makes kubeconfigs with one cluster, one user and one context.
package kubeconfig

import (
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config says what a kubeconfig holds: one cluster, one user, one context.
type Config struct {
	// Cluster, User and Context are the entries' names; Context is the current
	// one. Context defaults to Cluster.
	Cluster, User, Context string
	// Server is the URL of the API server.
	Server string
	// CAData is the PEM bundle to verify the server by. Empty means the
	// system's certificate authorities.
	CAData []byte
	// ProxyURL is the proxy to go through; empty means none.
	ProxyURL string
	// TLSServerName is the name to expect in the server's certificate in place of its
	// host name; empty means the host name.
	TLSServerName string
	// Namespace is what kubectl uses when none is given.
	Namespace string

	// Token is a bearer token.
	Token string
	// CertData and KeyData are a PEM-encoded client certificate and its key.
	CertData, KeyData []byte
	// CertFile and KeyFile name files with the same, relative to the
	// kubeconfig's own place.
	CertFile, KeyFile string
	// TokenFile names a file with a bearer token, in the same way.
	TokenFile string
}

// Object is the kubeconfig as client-go's type.
func (c Config) Object() *clientcmdapi.Config {
	context := c.Context
	if context == "" {
		context = c.Cluster
	}
	return &clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{c.Cluster: {
			Server:                   c.Server,
			CertificateAuthorityData: c.CAData,
			ProxyURL:                 c.ProxyURL,
			TLSServerName:            c.TLSServerName,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{c.User: {
			Token:                 c.Token,
			TokenFile:             c.TokenFile,
			ClientCertificateData: c.CertData,
			ClientKeyData:         c.KeyData,
			ClientCertificate:     c.CertFile,
			ClientKey:             c.KeyFile,
		}},
		Contexts: map[string]*clientcmdapi.Context{context: {
			Cluster:   c.Cluster,
			AuthInfo:  c.User,
			Namespace: c.Namespace,
		}},
		CurrentContext: context,
	}
}

// YAML is the kubeconfig as a file's content.
func (c Config) YAML() ([]byte, error) {
	return clientcmd.Write(*c.Object())
}
