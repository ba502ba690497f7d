package clusterimport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
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

// refusedError is why the hub does not connect to an address.
type refusedError struct{ address, why string }

func (e *refusedError) Error() string {
	return fmt.Sprintf("the hub does not connect to %s: %s", e.address, e.why)
}

// connection is a way to a managed cluster.
type connection struct {
	client.Client
	idle func()
}

// close ends the connections that are kept open.
func (c *connection) close() { c.idle() }

// connect prepares the way that a kubeconfig says. No request is sent. The addresses
// are checked when a connection is made, after names are looked up, and so for each
// redirect, if there were any: none is followed.
func connect(to *kubeconfig.Contained, loopback bool, timeout time.Duration) (*connection, error) {
	own := ownAddresses()
	for _, u := range []*url.URL{to.Server, to.Proxy} {
		if u == nil {
			continue
		}
		if why := kubeconfig.RefusedHost(u.Hostname(), own, loopback); why != "" {
			return nil, &refusedError{u.Hostname(), why}
		}
	}
	tls, err := rest.TLSConfigFor(to.Config)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: timeout / 2, Control: func(_, address string, _ syscall.RawConn) error {
		return checkAddress(address, own, loopback)
	}}
	transport := &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: tls, TLSHandshakeTimeout: timeout / 2, ResponseHeaderTimeout: timeout,
		MaxResponseHeaderBytes: 1 << 18, MaxIdleConnsPerHost: 1, IdleConnTimeout: timeout, ForceAttemptHTTP2: true,
		Proxy: http.ProxyFromEnvironment,
	}
	if to.Proxy != nil {
		transport.Proxy = http.ProxyURL(to.Proxy)
	}
	config := rest.CopyConfig(to.Config)
	config.TLSClientConfig, config.QPS, config.Timeout = rest.TLSClientConfig{}, -1, timeout
	config.UserAgent = fieldManager
	wrapped, err := rest.HTTPWrappersForConfig(config, limited{transport})
	if err != nil {
		return nil, err
	}
	web := &http.Client{Transport: wrapped, Timeout: timeout, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		return fmt.Errorf("the API server answers with a redirect to %s, and none is followed: use the URL that it leads to", r.URL.Host)
	}}
	c, err := client.New(config, client.Options{HTTPClient: web, Scheme: api.NewScheme(), Mapper: restmapper.Static()})
	if err != nil {
		return nil, err
	}
	return &connection{Client: c, idle: transport.CloseIdleConnections}, nil
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
		return 0, fmt.Errorf("the API server's answer has more than %d bytes", maxAnswer)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// unanswered reports whether nothing came back in time.
func unanswered(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
