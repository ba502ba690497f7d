package tunnel

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/internal/tunnel"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// session is an open tunnel, as far as this hub has a part in it.
type session struct {
	key key
	// request is the access request by which it is open.
	request v1alpha1.RequestReference
	entry   v1alpha1.Tunnel
	cluster string

	// user is who has opened it, once the user's end has come to this hub.
	user atomic.Pointer[user.DefaultInfo]
	ends [2]end
	// agent is the process that is the agent's end, by the name that it has made up.
	agent string
	// limits are those that its packets wait for.
	limits []*allotment
	// lonely ends a session whose user's end does not come, or come back.
	lonely clock.Timer
	// over is true once it carries nothing more, and why says why if somebody has ended it.
	over   atomic.Bool
	why    atomic.Pointer[string]
	ctx    context.Context //nolint:containedctx // the life of the session itself
	cancel context.CancelFunc
}

// The ends of a session.
const (
	ofUser = iota
	ofAgent
)

// maxWaiting is how many packets wait for an end that is not there.
const maxWaiting = 64

// end is one end of a session.
type end struct {
	conn atomic.Pointer[websocket.Conn] // nil while it is not there

	mu      sync.Mutex // of what is sent
	waiting [][]byte
	bytes   int64 // sent to it
}

// send hands a packet to an end. Without the end it waits, and may get lost.
func (e *end) send(p []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	conn := e.conn.Load()
	if conn == nil {
		if len(e.waiting) < maxWaiting {
			e.waiting = append(e.waiting, slices.Clone(p))
		}
		return
	}
	e.bytes += int64(len(p))
	// Without a deadline: an end that reads nothing holds up its own tunnel alone.
	_ = conn.Write(context.Background(), websocket.MessageBinary, p)
}

// attach makes a connection the end's, in place of an earlier one.
func (e *end) attach(conn *websocket.Conn) {
	if before := e.conn.Swap(conn); before != nil {
		_ = before.CloseNow() // which ends a write that is stuck
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.waiting {
		e.bytes += int64(len(p))
		_ = conn.Write(context.Background(), websocket.MessageBinary, p)
	}
	e.waiting = nil
}

// close says why the tunnel ends.
func (e *end) close(code websocket.StatusCode, why string) {
	if conn := e.conn.Load(); conn != nil {
		_ = conn.Close(code, text.Cut(why, tunnel.MaxReason))
	}
}

// carry hands the packets that come from one end to the other, until the connection breaks
// or the session ends.
func (r *Relay) carry(s *session, from int, conn *websocket.Conn) {
	if from == ofUser {
		s.lonely.Stop()
	}
	conn.SetReadLimit(tunnel.MaxPacket)
	s.ends[from].attach(conn)
	if s.over.Load() { // it has ended while this end was on its way
		if why := s.why.Load(); why != nil {
			s.ends[from].close(websocket.StatusNormalClosure, *why)
		}
		_ = conn.CloseNow()
		return
	}
	why := s.forward(conn, &s.ends[1-from])
	_ = conn.CloseNow()
	if !s.ends[from].conn.CompareAndSwap(conn, nil) {
		return // another has taken its place
	}
	var closed websocket.CloseError
	switch {
	case errors.As(why, &closed) && closed.Code == websocket.StatusNormalClosure:
		reason := text.Line(closed.Reason)
		if from == ofAgent {
			reason = "the cluster's agent says: " + reason
		}
		r.end(s, reason)
	case from == ofUser:
		s.lonely.Reset(tunnel.Silence)
	}
}

func (s *session) forward(from *websocket.Conn, to *end) error {
	var packet [tunnel.MaxPacket + 1]byte // none fills it
	for {
		kind, message, err := from.Reader(s.ctx)
		if err != nil {
			return err
		}
		if kind != websocket.MessageBinary {
			return errors.New("a message is no packet")
		}
		n, err := io.ReadFull(message, packet[:])
		if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return err
		}
		for _, l := range s.limits {
			if err := l.rate.WaitN(s.ctx, n); err != nil {
				return err
			}
		}
		if !s.over.Load() {
			to.send(packet[:n])
			carriedBytes.Add(float64(n))
		}
	}
}

// closeTimeout is how long the ends may take to hear why a tunnel ends. It carries nothing
// meanwhile.
const closeTimeout = time.Second

// close closes both ends.
func (s *session) close(code websocket.StatusCode, why string) {
	s.lonely.Stop()
	stop := time.AfterFunc(closeTimeout, s.cancel)
	defer stop.Stop()
	var closing sync.WaitGroup
	for i := range s.ends {
		closing.Go(func() { s.ends[i].close(code, why) })
	}
	closing.Wait()
	s.cancel()
}
