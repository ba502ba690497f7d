package controlplane

import (
	"bytes"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

// openingPause is between two connections that a server takes while it starts. After a restart
// all agents connect at once, and what their handshakes cost is missing for the start. What
// asks for the server's health gets its turn among them.
const openingPause = 20 * time.Millisecond

// openingListener lets clients in one by one until the server is open, but for the server's
// own.
type openingListener struct {
	net.Listener
	open  func() bool
	sleep func(time.Duration)
	turn  sync.Mutex
}

// Accept implements net.Listener.
func (l *openingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil || l.open() {
		return conn, err
	}
	return &openingConn{Conn: conn, wait: l.wait}, nil
}

// wait waits for a client's turn.
func (l *openingListener) wait() {
	l.turn.Lock()
	defer l.turn.Unlock()
	if !l.open() {
		l.sleep(openingPause)
	}
}

// openingConn waits before its handshake goes on.
type openingConn struct {
	net.Conn
	wait  func()
	begun bool
}

// Read implements net.Conn. The first bytes of a client name the server, in clear: the
// process's own clients have a name for it that no other needs.
func (c *openingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.begun {
		c.begun = true
		if !bytes.Contains(b[:n], []byte(genericapiserver.LoopbackClientServerNameOverride)) {
			c.wait()
		}
	}
	return n, err
}

// healthPaths are answered before a server is open, with what is below them.
var healthPaths = []string{"/readyz", "/livez", "/healthz", "/version"}

// whenOpen answers requests with 503 until open says yes, but for those that bear
// this process's own token and those about its health.
func whenOpen(h http.Handler, open func() bool, token string) http.Handler {
	own := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		health := slices.ContainsFunc(healthPaths, func(p string) bool {
			return r.URL.Path == p || strings.HasPrefix(r.URL.Path, p+"/")
		})
		if health || open() || subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), own) == 1 {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the server is starting: try again in a second", http.StatusServiceUnavailable)
	})
}
