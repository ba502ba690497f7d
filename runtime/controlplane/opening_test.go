package controlplane

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// While a server starts, handshakes of others than itself get no more than a small part of
// the time.
func TestServerThatStartsLetsClientsInWithPauses(t *testing.T) {
	open, paused := false, time.Duration(0)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	l := &openingListener{
		Listener: inner, open: func() bool { return open }, sleep: func(d time.Duration) { paused += d },
	}
	for _, tc := range []struct {
		name, server string
		open         bool
		want         time.Duration
	}{
		{"an agent", "hub.example.org", false, openingPause},
		{"a client that names no server", "", false, openingPause},
		{"the process itself", genericapiserver.LoopbackClientServerNameOverride, false, 0},
		{"an agent, once open", "hub.example.org", true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			open, paused = tc.open, 0
			raw, err := net.Dial("tcp", inner.Addr().String())
			testkit.Must(t, err)
			defer func() { _ = raw.Close() }()
			go func() {
				config := &tls.Config{ServerName: tc.server, InsecureSkipVerify: true} //nolint:gosec // nothing is sent
				_ = tls.Client(raw, config).Handshake()
			}()
			conn, err := l.Accept()
			testkit.Must(t, err)
			defer func() { _ = conn.Close() }()
			seen := errors.New("the handshake has begun")
			err = tls.Server(conn, &tls.Config{ //nolint:gosec // nothing is served
				GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, seen },
			}).Handshake()
			if !errors.Is(err, seen) || paused != tc.want {
				t.Errorf("paused for %s, and then: %v", paused, err)
			}
		})
	}
	testkit.Must(t, l.Close())
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a listener that is closed: %v", err)
	}
}

func TestServerThatStartsAnswersOnlyItself(t *testing.T) {
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, tc := range []struct {
		name, path, authorization string
		open, want                bool
	}{
		{"an agent", "/apis/x", "Bearer other", false, false},
		{"nobody", "/apis/x", "", false, false},
		{"a token that begins alike", "/apis/x", "Bearer own-and-more", false, false},
		{"the process itself", "/apis/x", "Bearer own", false, true},
		{"a health check", "/readyz", "", false, true},
		{"one health check of several", "/readyz/etcd", "", false, true},
		{"what only looks like one", "/readyzzz", "", false, false},
		{"an agent, once open", "/apis/x", "Bearer other", true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, tc.path, nil)
			r.Header.Set("Authorization", tc.authorization)
			w := httptest.NewRecorder()
			whenOpen(served, func() bool { return tc.open }, "own").ServeHTTP(w, r)
			if got := w.Code == http.StatusTeapot; got != tc.want {
				t.Errorf("answered %d", w.Code)
			}
			if !tc.want && (w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1") {
				t.Errorf("got %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
			}
		})
	}
}
