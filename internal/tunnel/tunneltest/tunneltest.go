// Package tunneltest stands for a hub in tests of the ends of a tunnel.
package tunneltest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/tunnel"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// Relay hands on the packets of tunnels, and decides nothing. It is safe for concurrent
// use.
type Relay struct {
	*httptest.Server

	mu      sync.Mutex
	ends    map[end]*websocket.Conn
	refusal *apierrors.StatusError
	down    bool
}

// end is one end of a tunnel.
type end struct {
	id    string
	agent bool
}

// New starts a relay, which ends with the test.
func New(t testing.TB) *Relay {
	r := &Relay{ends: map[end]*websocket.Conn{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(func() {
		r.SetDown(true)
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

// Refuse has the relay refuse the user's end.
func (r *Relay) Refuse(err *apierrors.StatusError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal = err
}

// SetDown breaks all connections. While it is down, the relay takes no others.
func (r *Relay) SetDown(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
	for _, c := range r.ends {
		go func() { _ = c.CloseNow() }()
	}
}

// HasUser reports whether the user's end of a tunnel is there.
func (r *Relay) HasUser(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ends[end{id, false}] != nil
}

// User is the user's way to the relay, and Agent the agent's.
func (r *Relay) User(t testing.TB, id string) tunnel.Hub { return r.at(t, "accessrequests", id) }

// Agent is the agent's way to the relay.
func (r *Relay) Agent(t testing.TB, id string) tunnel.Hub { return r.at(t, "clustercredentials", id) }

func (r *Relay) at(t testing.TB, resource, id string) tunnel.Hub {
	t.Helper()
	hub, err := tunnel.At(&rest.Config{Host: r.URL}, tunnel.Path(resource, "x", "x"), id)
	testkit.Must(t, err)
	return hub
}

func (r *Relay) serve(w http.ResponseWriter, req *http.Request) {
	from := end{req.URL.Query().Get("id"), strings.Contains(req.URL.Path, "/clustercredentials/")}
	other := end{from.id, !from.agent}
	r.mu.Lock()
	refusal, down := r.refusal, r.down
	r.mu.Unlock()
	switch {
	case down:
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return
	case refusal != nil && !from.agent:
		extension.Refuse(w, refusal)
		return
	}
	conn, err := websocket.Accept(w, req, &websocket.AcceptOptions{Subprotocols: []string{tunnel.Subprotocol}})
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	r.mu.Lock()
	r.ends[from] = conn
	r.mu.Unlock()
	for {
		_, packet, err := conn.Read(context.Background())
		r.mu.Lock()
		to := r.ends[other]
		if err != nil && r.ends[from] == conn {
			delete(r.ends, from)
		}
		r.mu.Unlock()
		var closed websocket.CloseError
		if errors.As(err, &closed) && closed.Code == websocket.StatusNormalClosure && to != nil {
			_ = to.Close(closed.Code, closed.Reason)
		}
		if err != nil {
			return
		}
		if to != nil {
			_ = to.Write(context.Background(), websocket.MessageBinary, packet)
		}
	}
}
