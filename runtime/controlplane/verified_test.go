package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"runtime"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// counting authenticates by the certificate, and counts how often it is asked.
type counting struct {
	asked int
	fails error
}

func (c *counting) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	c.asked++
	if c.fails != nil {
		return nil, false, c.fails
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: string(r.TLS.PeerCertificates[0].Raw)}}, true, nil
}

// A certificate is verified once a minute, and whenever something has changed that
// may make another one of it.
func TestCertificatesAreVerifiedOnce(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	options, trusted := x509.VerifyOptions{Roots: x509.NewCertPool(), CurrentTime: start}, true
	next := &counting{}
	v := &verified{Request: next, options: func() (x509.VerifyOptions, bool) { return options, trusted }}
	certificate := func(name string, lives time.Duration) *x509.Certificate {
		return &x509.Certificate{Raw: []byte(name), NotBefore: start, NotAfter: start.Add(lives)}
	}
	one, other, short := certificate("one", time.Hour), certificate("other", time.Hour), certificate("short", 10*time.Second)
	request := func(chain ...*x509.Certificate) *http.Request {
		return &http.Request{TLS: &tls.ConnectionState{PeerCertificates: chain}, Header: http.Header{}}
	}
	withToken := request(one)
	withToken.Header.Set("Authorization", "Bearer x")
	for _, step := range []struct {
		what   string
		change func()
		of     *http.Request
		asks   int
	}{
		{"the first request", nil, request(one), 1},
		{"the next one", nil, request(one), 0},
		{"a token beside it", nil, withToken, 1},
		{"another certificate", nil, request(other), 1},
		{"a certificate with intermediate ones", nil, request(one, other), 1},
		{"the same again", nil, request(one, other), 1},
		{"a certificate that ends soon", nil, request(short), 1},
		{"before its end", func() { options.CurrentTime = start.Add(9 * time.Second) }, request(short), 0},
		{"at its end", func() { options.CurrentTime = start.Add(10 * time.Second) }, request(short), 1},
		{"within a minute", nil, request(one), 0},
		{"after a minute", func() { options.CurrentTime = start.Add(time.Minute) }, request(one), 1},
		{"then again", nil, request(one), 0},
		{"other authorities", func() { options.Roots = x509.NewCertPool() }, request(one), 1},
		{"no authorities", func() { trusted = false }, request(one), 1},
		{"the same authorities again", func() { trusted = true }, request(one), 0},
	} {
		if step.change != nil {
			step.change()
		}
		before := next.asked
		response, ok, err := v.AuthenticateRequest(step.of)
		if err != nil || !ok || response.User.GetName() != string(step.of.TLS.PeerCertificates[0].Raw) {
			t.Errorf("%s: got %v, %v, %v", step.what, response, ok, err)
		}
		if asked := next.asked - before; asked != step.asks {
			t.Errorf("%s: verified %d times, want %d", step.what, asked, step.asks)
		}
	}

	next.fails = errors.New("unknown authority")
	refused := certificate("refused", time.Hour)
	for range 2 {
		if _, ok, err := v.AuthenticateRequest(request(refused)); ok || err == nil {
			t.Errorf("a refused certificate: %v, %v", ok, err)
		}
	}
	next.fails = nil
	if _, ok, err := v.AuthenticateRequest(request(refused)); !ok || err != nil {
		t.Errorf("a certificate that was refused before: %v, %v", ok, err)
	}
	runtime.KeepAlive([]*x509.Certificate{one, other, short, refused})
}

// What is remembered of a certificate goes with its connection.
func TestNothingIsKeptOfClosedConnections(t *testing.T) {
	v := &verified{Request: &counting{}, options: func() (x509.VerifyOptions, bool) { return x509.VerifyOptions{CurrentTime: time.Now()}, true }}
	entries := func() (number int) {
		v.known.Range(func(any, any) bool { number++; return true })
		return number
	}
	for range 10 {
		r := &http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte("gone"), NotAfter: time.Now().Add(time.Hour)}}}}
		if _, ok, err := v.AuthenticateRequest(r); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	testkit.Eventually(t, func() error {
		runtime.GC()
		if left := entries(); left > 0 {
			return errors.New("there are entries left")
		}
		return nil
	})
}
