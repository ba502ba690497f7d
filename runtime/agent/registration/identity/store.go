package identity

import (
	"context"
	"crypto/tls"
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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

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
	dialer    *connrotation.Dialer
	current   atomic.Pointer[tls.Certificate]
}

// NewCredentials prepares the use of an identity.
func NewCredentials(id Identity) (*Credentials, error) {
	c := &Credentials{
		server: id.Hub.Server,
		dialer: connrotation.NewDialer((&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext),
	}
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
	c.transport, err = transport.New(config)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to the hub %s: %w", id.Hub.Server, err)
	}
	return c, nil
}

// Config is a client's configuration without a rate limit.
func (c *Credentials) Config(userAgent string) *rest.Config {
	return &rest.Config{Host: c.server, Transport: c.transport, UserAgent: userAgent, QPS: -1}
}

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
