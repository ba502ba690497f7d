package useraccess

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Credential is what a user has got: the way into one cluster.
type Credential struct {
	// Cluster is the cluster, and User the user of the hub.
	Cluster, User string
	// Endpoint is where the cluster's API server is.
	Endpoint v1alpha1.Endpoint
	// Certificate is a client certificate with its chain, and Key its key, in PEM.
	Certificate, Key []byte
	// Token is a bearer token, in place of a certificate.
	Token string
	// NotAfter is when access ends.
	NotAfter time.Time
}

// ErrNoEndpoint says that nobody knows where a cluster's API server is.
var ErrNoEndpoint = errors.New("the hub does not know where the cluster's API server is: its agent has to report it (--spoke-external-server-urls)")

// noEndpointError is ErrNoEndpoint for a request, in the words of the hub where it says why
// there is none, such as an annotation that can't be read.
type noEndpointError struct{ why string }

func (e noEndpointError) Error() string { return e.why }
func (noEndpointError) Unwrap() error   { return ErrNoEndpoint }

// NoEndpoint is why a request that is issued has no endpoint. It is an ErrNoEndpoint.
func NoEndpoint(request *v1alpha1.AccessRequest) error {
	if issued := meta.FindStatusCondition(request.Status.Conditions, muster.ConditionIssued); issued != nil {
		if _, why, found := strings.Cut(issued.Message, muster.ReasonEndpointUnknown+": "); found {
			return noEndpointError{why}
		}
	}
	return ErrNoEndpoint
}

// Open makes a credential of a request that is issued. A certificate that is not for
// the key and the user, and a token that is not sealed to the key, are refused. Where
// the hub does not know the cluster's address, the error is ErrNoEndpoint, and the
// credential complete but for it.
func Open(request *v1alpha1.AccessRequest, keys Keys, hubID string) (Credential, error) {
	spec, status := request.Spec, request.Status
	c := Credential{Cluster: spec.ManagedCluster, User: spec.User}
	if status.NotAfter != nil {
		c.NotAfter = status.NotAfter.Time
	}
	switch {
	case len(status.Certificate) > 0:
		hash, err := access.KeyHash(keys.Certificate.Public())
		if err != nil {
			return c, err
		}
		leaf, err := access.ReadCertificate(status.Certificate, hubID, spec.User, hash)
		if err != nil {
			return c, fmt.Errorf("the hub handed out a certificate that was not asked for, and it is not used: %w", err)
		}
		c.Certificate, c.NotAfter = status.Certificate, leaf.NotAfter
		if c.Key, err = keys.KeyPEM(); err != nil {
			return c, err
		}
	case len(status.SealedToken) > 0:
		token, err := access.Open(keys.Token, status.SealedToken, string(request.UID))
		if err != nil {
			return c, err
		}
		c.Token = string(token)
	default:
		return c, errors.New("there is neither a certificate nor a token in the answer")
	}
	if len(status.Endpoints) == 0 {
		return c, NoEndpoint(request)
	}
	c.Endpoint = status.Endpoints[0]
	return c, nil
}

// Entry is the way into one cluster, in a kubeconfig.
type Entry struct {
	Cluster, User string
	Endpoint      v1alpha1.Endpoint
	Auth          clientcmdapi.AuthInfo
}

// Entry is the credential in a kubeconfig.
func (c Credential) Entry() Entry {
	return Entry{
		Cluster: c.Cluster, User: c.User, Endpoint: c.Endpoint,
		Auth: clientcmdapi.AuthInfo{ClientCertificateData: c.Certificate, ClientKeyData: c.Key, Token: c.Token},
	}
}

// ContextName is the name of a context.
func ContextName(user, cluster string) string { return user + "@" + cluster }

// Config is a kubeconfig with a context USER@CLUSTER for each entry, in a namespace.
// The first one is the current one. The cluster is called CLUSTER and the user USER,
// as in the kubeconfigs of EMCO's DCM; where there are several clusters, whose
// credentials differ, the users are called as their contexts.
func Config(entries []Entry, namespace string) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	for i := range entries {
		e := &entries[i]
		context := ContextName(e.User, e.Cluster)
		user := e.User
		if len(entries) > 1 {
			user = context
		}
		config.Clusters[e.Cluster] = &clientcmdapi.Cluster{Server: e.Endpoint.URL, CertificateAuthorityData: e.Endpoint.CABundle}
		config.AuthInfos[user] = &e.Auth
		config.Contexts[context] = &clientcmdapi.Context{Cluster: e.Cluster, AuthInfo: user, Namespace: namespace}
		if config.CurrentContext == "" {
			config.CurrentContext = context
		}
	}
	return config
}

// Kubeconfig is Config as a file's content.
func Kubeconfig(entries []Entry, namespace string) ([]byte, error) {
	text, err := clientcmd.Write(*Config(entries, namespace))
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	return text, nil
}

// privateKeyType is the PEM block of a key in PKCS 8.
const privateKeyType = "PRIVATE KEY"

// Keys are what a user proves with who it is. They never leave the user's machine.
type Keys struct {
	// Certificate is the key of the client certificate: ECDSA P-256.
	Certificate *ecdsa.PrivateKey
	// Token is what tokens are sealed to: X25519.
	Token *ecdh.PrivateKey
}

// NewKeys makes keys.
func NewKeys() (Keys, error) {
	certificate, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Keys{}, fmt.Errorf("make a key: %w", err)
	}
	token, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return Keys{}, fmt.Errorf("make a key: %w", err)
	}
	return Keys{Certificate: certificate, Token: token}, nil
}

// KeyPEM is the key of the certificate in PEM.
func (k Keys) KeyPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.Certificate)
	if err != nil {
		return nil, fmt.Errorf("write the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateKeyType, Bytes: der}), nil
}

// ParseKey reads what KeyPEM has written.
func ParseKey(data []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != privateKeyType {
		return nil, errors.New("it is not a private key in PEM (PKCS 8)")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	own, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the private key is a %T, and must be an ECDSA key", key)
	}
	return own, nil
}
