package identity

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"
)

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
