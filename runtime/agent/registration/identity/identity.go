// Package identity is about who an agent is on its hub: the names in its
// certificate, the Secret that keeps certificate and key in the managed
// cluster, and the rules by which a stored identity is still good.
package identity

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// Names are who an agent is.
type Names struct {
	// Cluster is the name of the managed cluster.
	Cluster string
	// Agent distinguishes the agent from others that the cluster has had.
	Agent string
}

// Identity is what an agent is known by on its hub.
type Identity struct {
	Names
	// Hub is where the identity is good.
	Hub Endpoint
	// Place is what is known of other endpoints of the hub.
	Place Place
	// UsedBootstrap is the digest of the bootstrap kubeconfig that was deleted after
	// the registration. It is stored by Store.MarkUsed.
	UsedBootstrap string
	// CertPEM and KeyPEM are the certificate, with its chain, and its key.
	CertPEM, KeyPEM []byte
}

// FromSecret reads what a Secret holds of an identity, which may be only a
// part: Check reports that. An unreadable kubeconfig counts as none.
func FromSecret(data map[string][]byte) Identity {
	id := Identity{
		Names:   Names{Cluster: string(data[cluster.ClusterNameKey]), Agent: string(data[cluster.AgentNameKey])},
		CertPEM: data[cluster.TLSCertKey],
		KeyPEM:  data[cluster.TLSKeyKey],
		Place:   parsePlace(data[muster.PlaceKey]),

		UsedBootstrap: string(data[cluster.UsedBootstrapKey]),
	}
	if config, err := clientcmd.Load(data[cluster.KubeconfigKey]); err == nil {
		if e, err := currentEndpoint(config); err == nil {
			id.Hub = e
		}
	}
	return id
}

// SecretData is the identity as the content of a Secret. Only names are
// written while there is no certificate. An entry that is nil is to be removed.
func (id Identity) SecretData() (map[string][]byte, error) {
	data := map[string][]byte{
		cluster.ClusterNameKey: []byte(id.Cluster),
		cluster.AgentNameKey:   []byte(id.Agent),
	}
	if len(id.CertPEM) == 0 {
		return data, nil
	}
	config := id.Hub.Kubeconfig()
	// A pod that mounts the Secret finds the pair beside the kubeconfig.
	config.CertFile, config.KeyFile = cluster.TLSCertKey, cluster.TLSKeyKey
	content, err := config.YAML()
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig for the hub %s: %w", id.Hub.Server, err)
	}
	if data[muster.PlaceKey], err = id.Place.content(); err != nil {
		return nil, err
	}
	data[cluster.KubeconfigKey] = content
	data[cluster.TLSCertKey] = id.CertPEM
	data[cluster.TLSKeyKey] = id.KeyPEM
	return data, nil
}

// Equal reports whether both are the same in every part.
func (id Identity) Equal(other Identity) bool {
	return id.Names == other.Names && id.Hub.Equal(other.Hub) && id.Place.Equal(other.Place) &&
		bytes.Equal(id.CertPEM, other.CertPEM) && bytes.Equal(id.KeyPEM, other.KeyPEM)
}

// Certificate is the pair for TLS.
func (id Identity) Certificate() (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(id.CertPEM, id.KeyPEM)
	if err != nil {
		return nil, fmt.Errorf("read the agent's certificate and key: %w", err)
	}
	return &pair, nil
}

// Validity is the span in which all certificates of the chain are good.
func (id Identity) Validity() (notBefore, notAfter time.Time, err error) {
	chain, err := parseChain(id.CertPEM)
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	notBefore, notAfter = chain[0].NotBefore, chain[0].NotAfter
	for _, c := range chain[1:] {
		if c.NotAfter.Before(notAfter) {
			notAfter = c.NotAfter
		}
	}
	return notBefore, notAfter, nil
}

// Check says why the identity can't be used now by the agent of these names,
// or nil. bootstrap is where the bootstrap kubeconfig leads; nil means that
// there is none to compare with.
func (id Identity) Check(names Names, bootstrap *Endpoint, now time.Time) error {
	switch {
	case len(id.CertPEM) == 0 && len(id.KeyPEM) == 0:
		return errors.New("there is no certificate yet")
	case id.Hub.Server == "":
		return errors.New("there is no kubeconfig for the hub")
	case len(id.KeyPEM) == 0:
		return errors.New("the certificate's key is missing")
	case len(id.CertPEM) == 0:
		return errors.New("the key's certificate is missing")
	}
	if bootstrap != nil {
		if d := id.Differs(*bootstrap); d != "" {
			return errors.New(d)
		}
	}
	chain, err := parseChain(id.CertPEM)
	if err != nil {
		return err
	}
	if err := checkSubject(chain[0], names); err != nil {
		return err
	}
	for _, c := range chain {
		if !now.Before(c.NotAfter) {
			return fmt.Errorf("the certificate expired at %s", c.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	_, err = id.Certificate()
	return err
}

func checkSubject(c *x509.Certificate, names Names) error {
	if want := cluster.CommonName(names.Cluster, names.Agent); c.Subject.CommonName != want {
		return fmt.Errorf("the certificate is for %q, the agent is %q", c.Subject.CommonName, want)
	}
	return nil
}

// Organizations are the groups in the certificates of a cluster's agents.
func Organizations(name string) []string {
	return []string{cluster.Group(name), cluster.ManagedClustersGroup}
}

// HasSubject reports whether the certificate names the agent and its groups, and
// nothing else. One that does not is to be renewed though the hub may still
// take it.
func (id Identity) HasSubject() bool {
	chain, err := parseChain(id.CertPEM)
	if err != nil {
		return false
	}
	s := chain[0].Subject
	return s.CommonName == cluster.CommonName(id.Cluster, id.Agent) &&
		maps.Equal(set(s.Organization), set(Organizations(id.Cluster))) && len(s.OrganizationalUnit) == 0
}

func set(s []string) map[string]bool {
	m := map[string]bool{}
	for v := range slices.Values(s) {
		m[v] = true
	}
	return m
}

func parseChain(data []byte) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for {
		var block *pem.Block
		block, data = pem.Decode(data)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the certificate cannot be read: %w", err)
		}
		chain = append(chain, c)
	}
	if len(chain) == 0 {
		return nil, errors.New("the certificate is not in PEM form")
	}
	return chain, nil
}

// Store keeps an identity in the Secret cluster.HubKubeconfigSecret of a
// namespace of the managed cluster.
type Store struct {
	Client    client.Client
	Namespace string
}

// Load reads what is stored; an empty Identity when there is nothing.
func (s Store) Load(ctx context.Context) (Identity, error) {
	secret := &corev1.Secret{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: cluster.HubKubeconfigSecret}, secret)
	if apierrors.IsNotFound(err) {
		return Identity{}, nil
	}
	if err != nil {
		return Identity{}, fmt.Errorf("read the agent's identity from the Secret %s/%s of the managed cluster: %w",
			s.Namespace, cluster.HubKubeconfigSecret, err)
	}
	return FromSecret(secret.Data), nil
}

// Save stores an identity: whole, and in one write, so that a reader of it
// never finds a certificate without its key. Keys of others stay.
func (s Store) Save(ctx context.Context, id Identity) error {
	data, err := id.SecretData()
	if err != nil {
		return err
	}
	return s.put(ctx, data)
}

// MarkUsed stores the digest of a bootstrap kubeconfig that must not be used again.
func (s Store) MarkUsed(ctx context.Context, digest string) error {
	return s.put(ctx, map[string][]byte{cluster.UsedBootstrapKey: []byte(digest)})
}

func (s Store) put(ctx context.Context, data map[string][]byte) error {
	err := retry.OnError(retry.DefaultRetry, collided, func() error { return s.write(ctx, data) })
	if err != nil {
		return fmt.Errorf("store the agent's identity in the Secret %s/%s of the managed cluster: %w",
			s.Namespace, cluster.HubKubeconfigSecret, err)
	}
	return nil
}

// collided says that another writer came first, or that only now there is a
// namespace to write in.
func collided(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

func (s Store) write(ctx context.Context, data map[string][]byte) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: cluster.HubKubeconfigSecret}}
	err := s.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	switch {
	case apierrors.IsNotFound(err):
		secret.Data = present(data)
		err := s.Client.Create(ctx, secret)
		if apierrors.IsNotFound(err) {
			return s.createNamespace(ctx, err)
		}
		return err
	case err != nil:
		return err
	}
	merged := maps.Clone(secret.Data)
	if merged == nil {
		merged = map[string][]byte{}
	}
	maps.Copy(merged, data)
	merged = present(merged)
	if maps.EqualFunc(merged, secret.Data, slices.Equal) {
		return nil
	}
	secret.Data = merged
	return s.Client.Update(ctx, secret)
}

// present are the entries that are not to be removed.
func present(data map[string][]byte) map[string][]byte {
	data = maps.Clone(data)
	maps.DeleteFunc(data, func(_ string, content []byte) bool { return content == nil })
	return data
}

// createNamespace makes what was missing and returns the cause, so that the
// write is tried again.
func (s Store) createNamespace(ctx context.Context, cause error) error {
	err := s.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the namespace %s: %w", s.Namespace, err)
	}
	return cause
}

// Credentials are an identity in use: clients that are configured with Config
// follow when the certificate is renewed.
type Credentials struct {
	server    string
	transport http.RoundTripper
	upgrades  http.RoundTripper
	wait      *patient
	dialer    *connrotation.Dialer
	current   atomic.Pointer[tls.Certificate]
}

// NewCredentials prepares the use of an identity.
func NewCredentials(id Identity) (*Credentials, error) {
	dial := (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	c := &Credentials{server: id.Hub.Server, wait: newPatient(dial, clock.RealClock{})}
	c.dialer = connrotation.NewDialer(c.wait.DialContext)
	pair, err := id.Certificate()
	if err != nil {
		return nil, err
	}
	c.current.Store(pair)
	config := &transport.Config{
		TLS: transport.TLSConfig{
			CAData:        id.Hub.CAData,
			ServerName:    id.Hub.TLSServerName,
			GetCertHolder: &transport.GetCertHolder{GetCert: func() (*tls.Certificate, error) { return c.current.Load(), nil }},
		},
		DialHolder: &transport.DialHolder{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.dialer.DialContext(ctx, network, address)
		}},
	}
	if id.Hub.ProxyURL != "" {
		proxy, err := url.Parse(id.Hub.ProxyURL)
		if err != nil {
			return nil, fmt.Errorf("read the address of the hub's proxy: %w", err)
		}
		config.Proxy = http.ProxyURL(proxy)
	}
	upgrades := *config
	upgrades.TLS.NextProtos = []string{"http/1.1"}
	if c.transport, err = transport.New(config); err == nil {
		c.upgrades, err = transport.New(&upgrades)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to the hub %s: %w", id.Hub.Server, err)
	}
	smallTables(c.transport)
	return c, nil
}

// smallTables has a connection by HTTP/2 remember few headers, or none of those that the hub
// sends, each with an ID of its own. The hub keeps both tables for each of its agents.
func smallTables(t http.RoundTripper) {
	for {
		switch inner := t.(type) {
		case *http.Transport:
			inner.HTTP2 = &http.HTTP2Config{MaxDecoderHeaderTableSize: 1, MaxEncoderHeaderTableSize: 1 << 10}
			return
		case utilnet.RoundTripperWrapper:
			t = inner.WrappedRoundTripper()
		default:
			return
		}
	}
}

// Config is a client's configuration without a rate limit.
func (c *Credentials) Config(userAgent string) *rest.Config {
	return &rest.Config{Host: c.server, Transport: c.transport, UserAgent: userAgent, QPS: -1}
}

// Upgrades is Config by HTTP/1.1, for requests whose connection goes on as something else,
// which HTTP/2 does not know.
func (c *Credentials) Upgrades(userAgent string) *rest.Config {
	return &rest.Config{Host: c.server, Transport: c.upgrades, UserAgent: userAgent, QPS: -1}
}

// WaitForHub has connections wait for a hub that refuses them, as one that restarts.
func (c *Credentials) WaitForHub() { c.wait.on.Store(true) }

// Renew goes over to another certificate of the same agent. Connections made
// with the earlier one end, as a connection is never authenticated twice.
func (c *Credentials) Renew(id Identity) error {
	pair, err := id.Certificate()
	if err != nil {
		return err
	}
	c.current.Store(pair)
	c.dialer.CloseAll()
	return nil
}

// Close ends all connections.
func (c *Credentials) Close() { c.dialer.CloseAll() }
