package clusterimport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
)

// How the hub talks to a cluster that somebody else's kubeconfig names. The author of
// the kubeconfig may be hostile, and so may the server that answers.

// maxAnswer is how much of an answer is read, in bytes. An agent's largest object has
// some kilobytes.
const maxAnswer = 4 << 20

// Answers that no API server of Kubernetes gives.
var (
	errRedirect = errors.New("the server answers with a redirect, and none is followed")
	errTooLong  = fmt.Errorf("the server's answer has more than %d bytes", maxAnswer)
)

// refusedError is why the hub does not connect to an address.
type refusedError struct{ address, why string }

func (e *refusedError) Error() string {
	return fmt.Sprintf("the hub does not connect to %s: %s", e.address, e.why)
}

// authorityError is why the hub does not talk to a server that was reached: another
// authority vouches for it than for the cluster's.
type authorityError struct{ wanted, found string }

func (e *authorityError) Error() string {
	return fmt.Sprintf("the authority %s vouches for the server, and %s was expected", e.found, e.wanted)
}

// authority is who vouches for the server of each connection of one attempt: who is
// expected, and otherwise who did for the first one.
type authority struct {
	mu     sync.Mutex
	wanted string
}

// verify checks a connection before anything is sent over it, credentials included.
func (a *authority) verify(state tls.ConnectionState, host string) error {
	found := kubeconfig.Authorities(state, host)
	if len(found) == 0 {
		return errors.New("nobody vouches for the server")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wanted == "" {
		a.wanted = found[0]
	}
	if !slices.Contains(found, a.wanted) {
		return &authorityError{wanted: a.wanted, found: found[0]}
	}
	return nil
}

// is is who vouches for the cluster; empty before the first connection.
func (a *authority) is() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wanted
}

// connection is a way to a managed cluster.
type connection struct {
	client.Client
	authority *authority
	idle      func()
}

// close ends the connections that are kept open.
func (c *connection) close() { c.idle() }

// connect prepares the way that a kubeconfig says. No request is sent. The addresses
// are checked when a connection is made, after names are looked up, and so for each
// redirect, if there were any: none is followed. wanted is who has to vouch for the
// server; anybody when it is empty.
func connect(to *kubeconfig.Contained, wanted string, loopback bool, timeout time.Duration) (*connection, error) {
	own := ownAddresses()
	for _, u := range []*url.URL{to.Server, to.Proxy} {
		if u == nil {
			continue
		}
		if why := kubeconfig.RefusedHost(u.Hostname(), own, loopback); why != "" {
			return nil, &refusedError{u.Hostname(), why}
		}
	}
	secure, err := rest.TLSConfigFor(to.Config)
	if err != nil {
		return nil, err
	}
	if secure == nil {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	dialer := &net.Dialer{Timeout: timeout / 2, Control: func(_, address string, _ syscall.RawConn) error {
		return checkAddress(address, own, loopback)
	}}
	transport := &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: secure, TLSHandshakeTimeout: timeout / 2, ResponseHeaderTimeout: timeout,
		MaxResponseHeaderBytes: 1 << 18, MaxIdleConnsPerHost: 1, IdleConnTimeout: timeout, ForceAttemptHTTP2: true,
		Proxy: http.ProxyFromEnvironment,
	}
	if to.Proxy != nil {
		transport.Proxy = http.ProxyURL(to.Proxy)
	}
	vouches := &authority{wanted: wanted}
	checked(secure, to, transport, vouches)
	config := rest.CopyConfig(to.Config)
	config.TLSClientConfig, config.QPS, config.Timeout = rest.TLSClientConfig{}, -1, timeout
	config.UserAgent = fieldManager
	wrapped, err := rest.HTTPWrappersForConfig(config, limited{transport})
	if err != nil {
		return nil, err
	}
	web := &http.Client{Transport: wrapped, Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errRedirect
	}}
	c, err := client.New(config, client.Options{HTTPClient: web, Scheme: api.Scheme(), Mapper: restmapper.Static()})
	if err != nil {
		return nil, err
	}
	return &connection{Client: c, authority: vouches, idle: transport.CloseIdleConnections}, nil
}

// checked has each connection's authority checked before anything is sent over it. A
// connection to a proxy that speaks TLS itself is not one to the cluster: nothing is
// sent over it but the cluster's address, and the connection inside it is checked.
func checked(secure *tls.Config, to *kubeconfig.Contained, transport *http.Transport, vouches *authority) {
	host := to.Server.Hostname()
	if name := to.Config.TLSClientConfig.ServerName; name != "" {
		host = name
	}
	proxy, err := transport.Proxy(&http.Request{URL: to.Server})
	toProxy := func(tls.ConnectionState) bool { return false }
	if err == nil && proxy != nil && proxy.Scheme == "https" {
		name := host
		if _, err := netip.ParseAddr(host); err == nil {
			name = "" // no name is sent for an address
		}
		toProxy = func(state tls.ConnectionState) bool { return state.ServerName != name }
	}
	secure.VerifyConnection = func(state tls.ConnectionState) error {
		if toProxy(state) {
			return nil
		}
		return vouches.verify(state, host)
	}
}

func checkAddress(address string, own []netip.Addr, loopback bool) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return &refusedError{address, "it is no address"}
	}
	if why := kubeconfig.RefusedAddress(to.Addr(), own, loopback); why != "" {
		return &refusedError{address, why}
	}
	return nil
}

// ownAddresses are those of this machine. Without knowing them, its loopback is
// refused all the same.
func ownAddresses() []netip.Addr {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var own []netip.Addr
	for _, a := range found {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, prefix.Addr().Unmap())
		}
	}
	return own
}

// limited reads no more of an answer than maxAnswer.
type limited struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = &limitedBody{response.Body, maxAnswer}
	return response, nil
}

type limitedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
