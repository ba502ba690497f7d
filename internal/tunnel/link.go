package tunnel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"sync"
	"time"

	"github.com/coder/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Subresource is where the ends of a tunnel connect to the hub: below an AccessRequest the
// user's, and below its ClusterCredential the agent's.
const Subresource = "tunnel"

// Path is the place of an end in the hub's API, for accessrequests or clustercredentials.
func Path(resource, namespace, name string) string {
	return path.Join("/apis", v1alpha1.GroupVersion.String(), "namespaces", namespace, resource, name, Subresource)
}

// Hub opens a WebSocket to the hub. An *EndedError says that it is no use to try again.
type Hub func(context.Context) (*websocket.Conn, error)

// At is the way to a tunnel's place in the API of a hub, with the rights of a client
// configuration: at a Path.
func At(config *rest.Config, at, id string) (Hub, error) {
	client, to, err := place(config, at, id)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*websocket.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		options := &websocket.DialOptions{HTTPClient: client, Subprotocols: []string{Subprotocol}}
		conn, response, err := websocket.Dial(ctx, to.String(), options) //nolint:bodyclose // it needs no closing
		switch {
		case err == nil && conn.Subprotocol() != Subprotocol:
			_ = conn.CloseNow()
			return nil, &EndedError{fmt.Sprintf("the hub %s does not speak %s", config.Host, Subprotocol)}
		case err == nil:
			conn.SetReadLimit(MaxPacket)
			return conn, nil
		case response == nil || response.StatusCode == http.StatusSwitchingProtocols:
			return nil, fmt.Errorf("reach the hub %s: %w", config.Host, err)
		}
		return nil, answered(response)
	}, nil
}

// place is where an end connects.
func place(config *rest.Config, at, id string) (*http.Client, *url.URL, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0
	if config.Transport == nil {
		config.NextProtos = []string{"http/1.1"} // HTTP/2 has no upgrade to a WebSocket that servers know
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the hub %s: %w", config.Host, err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the hub %s: %w", config.Host, err)
	}
	to := base.JoinPath(at)
	// By start the hub knows that this is another process than before.
	to.RawQuery = url.Values{"id": {id}, "start": {NewID()}}.Encode()
	return client, to, nil
}

// GiveUp has the hub forget a tunnel whose user's side is silent. It is for the agent.
func GiveUp(ctx context.Context, config *rest.Config, at, id string) error {
	client, to, err := place(config, at, id)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, to.String(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("give up the tunnel %s: %w", id, err)
	}
	return response.Body.Close()
}

// answered is the error of a hub that opens no WebSocket.
func answered(response *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	var status metav1.Status
	why := fmt.Sprintf("the hub answers %s", response.Status)
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		why = status.Message
	}
	if code := response.StatusCode; code == http.StatusMisdirectedRequest || code >= http.StatusInternalServerError ||
		response.Header.Get("Retry-After") != "" {
		return errors.New(why)
	}
	return &EndedError{why}
}

// peer is the address of the other side.
type peer struct{}

func (peer) Network() string { return "tunnel" }
func (peer) String() string  { return "tunnel" }

// longestWait is the longest time between two attempts to reach the hub.
const longestWait = 2 * time.Second

// unsent is how many packets wait for the hub at most, so that little has to be sent again
// once it is back.
const unsent = 64

// link is the packets of one side. It connects to the hub again whenever the WebSocket
// breaks, until the hub, the other side or this one ends the tunnel for good.
type link struct {
	hub     Hub
	packets chan []byte
	ctx     context.Context //nolint:containedctx // the life of the link itself
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	conn    *websocket.Conn // nil while there is none
	waiting [][]byte        // what was to be sent meanwhile
	last    error           // why there is none
	// interrupt is closed while reads must not block, see SetReadDeadline.
	interrupt   chan struct{}
	interrupted bool
}

func newLink(hub Hub) *link {
	l := &link{hub: hub, packets: make(chan []byte, unsent), interrupt: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	go l.run()
	return l
}

// run keeps the WebSocket.
func (l *link) run() {
	policy := retry.New(clock.RealClock{}, retry.Quick(longestWait))
	for l.ctx.Err() == nil {
		conn, err := l.hub(l.ctx)
		var ended *EndedError
		switch {
		case errors.As(err, &ended):
			l.cancel(err)
			return
		case err != nil:
			l.mu.Lock()
			l.last = err
			l.mu.Unlock()
			policy.Wait(l.ctx, nil)
			continue
		}
		policy.Reset()
		if l.attach(conn) {
			l.read(conn)
		}
	}
}

// attach makes a WebSocket the link's, and sends what waits. It reports whether the link
// still wants it.
func (l *link) attach(conn *websocket.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		_ = conn.CloseNow()
		return false
	}
	for _, p := range l.waiting {
		if conn.Write(l.ctx, websocket.MessageBinary, p) != nil {
			break // which read gets to know
		}
	}
	l.conn, l.waiting, l.last = conn, nil, nil
	return true
}

// read hands on what comes, until the WebSocket breaks.
func (l *link) read(conn *websocket.Conn) {
	for {
		kind, p, err := conn.Read(l.ctx)
		if err != nil || kind != websocket.MessageBinary {
			l.mu.Lock()
			l.conn, l.last = nil, err
			l.mu.Unlock()
			_ = conn.CloseNow()
			var closed websocket.CloseError
			if errors.As(err, &closed) && closed.Code == websocket.StatusNormalClosure {
				l.cancel(&EndedError{text.Line(closed.Reason)})
			}
			return
		}
		select {
		case l.packets <- p:
		case <-l.ctx.Done():
			return
		}
	}
}

// end ends the tunnel for good, and says why to the hub.
func (l *link) end(reason string) {
	l.mu.Lock()
	conn := l.conn
	l.conn = nil
	l.mu.Unlock()
	if conn != nil && l.ctx.Err() == nil {
		_ = conn.Close(websocket.StatusNormalClosure, text.Cut(reason, MaxReason))
	}
	l.cancel(errors.New(reason))
	if conn != nil {
		_ = conn.CloseNow()
	}
}

// ended is why the hub, or the other side, has ended the tunnel; nil while it has not.
func (l *link) ended() error {
	var ended *EndedError
	if errors.As(context.Cause(l.ctx), &ended) {
		return ended
	}
	return nil
}

// trouble is the rest of a sentence: why there is no connection to the hub, if there is none.
func (l *link) trouble() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		return ""
	}
	return ": " + l.last.Error()
}

// ReadFrom returns the next packet.
func (l *link) ReadFrom(p []byte) (int, net.Addr, error) {
	l.mu.Lock()
	interrupt := l.interrupt
	l.mu.Unlock()
	select {
	case packet := <-l.packets:
		return copy(p, packet), peer{}, nil
	case <-interrupt:
		return 0, nil, os.ErrDeadlineExceeded
	case <-l.ctx.Done():
		return 0, nil, net.ErrClosed
	}
}

// WriteTo sends a packet. Without the hub it waits, and may get lost.
func (l *link) WriteTo(p []byte, _ net.Addr) (int, error) {
	l.mu.Lock()
	conn := l.conn
	if conn == nil {
		if len(l.waiting) < unsent {
			l.waiting = append(l.waiting, append([]byte(nil), p...))
		}
	}
	l.mu.Unlock()
	if l.ctx.Err() != nil {
		return 0, net.ErrClosed
	}
	if conn != nil {
		_ = conn.Write(l.ctx, websocket.MessageBinary, p) // read gets to know when it breaks
	}
	return len(p), nil
}

// Close ends the link.
func (l *link) Close() error {
	l.cancel(net.ErrClosed)
	return nil
}

// LocalAddr is the address of this side.
func (l *link) LocalAddr() net.Addr { return peer{} }

// SetReadDeadline knows two deadlines, as QUIC uses no other: none, and one that is over.
func (l *link) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	over := !t.IsZero() && !t.After(time.Now())
	switch {
	case over && !l.interrupted:
		close(l.interrupt)
	case !over && l.interrupted:
		l.interrupt = make(chan struct{})
	}
	l.interrupted = over
	return nil
}

// SetDeadline is SetReadDeadline: writes don't wait.
func (l *link) SetDeadline(t time.Time) error { return l.SetReadDeadline(t) }

// SetWriteDeadline does nothing: writes don't wait.
func (l *link) SetWriteDeadline(time.Time) error { return nil }

// SetReadBuffer and SetWriteBuffer do nothing, but QUIC complains on the standard error
// about connections without them.
func (l *link) SetReadBuffer(int) error { return nil }

// SetWriteBuffer does nothing.
func (l *link) SetWriteBuffer(int) error { return nil }
