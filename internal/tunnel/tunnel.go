// Package tunnel takes users' connections to the API server of a managed cluster, through
// the hub, where the cluster can't be reached otherwise.
//
// The user's side (Connect) and the agent (Serve) each hold a WebSocket to the hub, which
// hands on their messages and keeps none. Each message is a packet of one QUIC connection
// (RFC 9000) between the two, and each connection of the user is a stream of it. In the
// stream the user's client speaks TLS with the cluster's API server, as it would without a
// tunnel: the hub carries bytes that it can't read.
//
// QUIC is here for what it does when packets get lost. A WebSocket that breaks, as when the
// hub restarts, is only packets that did not arrive: both sides connect again, and the
// user's connections go on.
package tunnel

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
)

const (
	// Subprotocol is that of the WebSockets. Another one will have another number.
	Subprotocol = "muster-tunnel.v1"
	// MaxPacket is the size of the largest message, in bytes.
	MaxPacket = 1500
	// Silence is how long nothing may be heard of the other side. A hub may be gone for
	// that long.
	Silence = 2 * time.Minute
	// MaxReason is the longest reason in a WebSocket's close, in bytes.
	MaxReason = 120

	keepAlive = 20 * time.Second
	// answerTimeout is how long the agent may take to come to the hub, and to reach its
	// API server.
	answerTimeout = 30 * time.Second
	// maxStreams is how many connections a tunnel holds at a time.
	maxStreams = 200
	// packetSize fits into MaxPacket, and is what QUIC sends at most.
	packetSize = 1400
	// Each side keeps this much of a connection that the other end does not read, in
	// bytes, and of all of them together.
	streamWindow, connectionWindow = 2 << 20, 8 << 20
)

// NewID makes up the ID of a tunnel: 32 hexadecimal digits. It stays the same when the
// user's side connects again.
func NewID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // Never fails.
	return hex.EncodeToString(random[:])
}

// IsID reports whether a text is the ID of a tunnel.
func IsID(text string) bool {
	id, err := hex.DecodeString(text)
	return err == nil && len(id) == 16
}

// EndedError is why a tunnel has ended for good, in the words of the hub or the agent.
type EndedError struct{ Reason string }

func (e *EndedError) Error() string { return e.Reason }

// ErrSilent ends the agent's side of a tunnel whose user's side does not come, or come back.
var ErrSilent = &EndedError{fmt.Sprintf("nothing was heard of the user's side for %s", Silence)}

func config() *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout: answerTimeout, MaxIdleTimeout: Silence, KeepAlivePeriod: keepAlive,
		MaxIncomingStreams: maxStreams, MaxIncomingUniStreams: -1,
		MaxStreamReceiveWindow: streamWindow, MaxConnectionReceiveWindow: connectionWindow,
		InitialPacketSize: packetSize, DisablePathMTUDiscovery: true,
	}
}

// Client is the user's side of a tunnel. It is safe for concurrent use.
type Client struct {
	link      *link
	transport *quic.Transport
	conn      *quic.Conn
}

// Connect opens a tunnel. It returns when the agent has answered. ctx
// is for the opening alone; Close ends the tunnel.
func Connect(ctx context.Context, hub Hub) (*Client, error) {
	l := newLink(hub)
	c := &Client{link: l, transport: &quic.Transport{Conn: l}}
	// What is protected is within: the user's client verifies the cluster's API server by
	// the cluster's authority. This layer only needs a peer.
	plain := &tls.Config{
		InsecureSkipVerify: true,
		NextProtos:         []string{Subprotocol},
		MinVersion:         tls.VersionTLS13,
	} //nolint:gosec // see above
	var err error
	if c.conn, err = c.transport.Dial(ctx, peer{}, plain, config()); err != nil {
		ended, trouble := l.ended(), l.trouble()
		c.Close()
		var idle *quic.IdleTimeoutError
		var handshake *quic.HandshakeTimeoutError
		switch {
		case ended != nil:
			return nil, ended
		case errors.As(err, &idle), errors.As(err, &handshake):
			return nil, fmt.Errorf("the cluster's agent has not answered within %s%s", answerTimeout, trouble)
		}
		return nil, err
	}
	return c, nil
}

// Done is closed when the tunnel has ended.
func (c *Client) Done() <-chan struct{} { return c.conn.Context().Done() }

// Err is why the tunnel has ended; nil while it has not.
func (c *Client) Err() error {
	if c.conn.Context().Err() == nil {
		return nil
	}
	if err := c.link.ended(); err != nil {
		return err
	}
	err := context.Cause(c.conn.Context())
	var idle *quic.IdleTimeoutError
	var closed *quic.ApplicationError
	switch {
	case errors.As(err, &idle):
		return fmt.Errorf("nothing was heard of the cluster's agent for %s%s", Silence, c.link.trouble())
	case errors.As(err, &closed) && closed.Remote:
		return &EndedError{"the cluster's agent says: " + text.Line(closed.ErrorMessage)}
	}
	return err
}

// Open opens a connection to the cluster's API server.
func (c *Client) Open(ctx context.Context) (net.Conn, error) {
	s, err := c.conn.OpenStreamSync(ctx)
	if err != nil {
		if ended := c.Err(); ended != nil && ctx.Err() == nil {
			err = ended
		}
		return nil, err
	}
	opened := &stream{Stream: s, conn: c.conn}
	stop := context.AfterFunc(ctx, func() { _ = opened.Close() })
	defer stop()
	answer := []byte{0}
	if _, err = s.Write([]byte{version}); err == nil {
		_, err = io.ReadFull(s, answer)
	}
	if err == nil && answer[0] != fine {
		why, _ := io.ReadAll(io.LimitReader(s, maxWhy))
		err = fmt.Errorf("the cluster's agent can't reach its API server: %s", text.Line(string(why)))
	}
	if err != nil {
		_ = opened.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return opened, nil
}

// Close ends the tunnel.
func (c *Client) Close() {
	if c.conn != nil {
		_ = c.conn.CloseWithError(0, "")
	}
	c.link.end("closed by the user")
	_ = c.transport.Close()
}

// A stream begins with the version, and its answer with one of these; what follows refused
// is why.
const (
	version = 1
	fine    = 0
	refused = 1
	maxWhy  = 1024
)

// Serve answers the user's side until ctx ends or the tunnel does. target connects to the
// cluster's API server; the user has no say in where that is. When ctx ends with a cause,
// the hub and the user get to know it. The error is why the tunnel has ended.
func Serve(ctx context.Context, hub Hub, target func(context.Context) (net.Conn, error)) error {
	l := newLink(hub)
	outer := ctx
	defer func() { l.end(reason(outer)) }()
	certificate, err := newCertificate()
	if err != nil {
		return err
	}
	transport := &quic.Transport{Conn: l}
	defer func() { _ = transport.Close() }()
	listener, err := transport.Listen(&tls.Config{
		Certificates: []tls.Certificate{certificate}, NextProtos: []string{Subprotocol}, MinVersion: tls.VersionTLS13,
	}, config())
	if err != nil {
		return fmt.Errorf("listen in the tunnel: %w", err)
	}
	defer func() { _ = listener.Close() }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(l.ctx, func() { cancel(l.ended()) })
	defer stop()
	for {
		conn, err := accept(ctx, listener)
		if err != nil {
			if ended := l.ended(); ended != nil {
				return ended
			}
			return err
		}
		// Another connection of the user's side takes the place of the one before.
		serveConnection(ctx, conn, target)
	}
}

// reason is why the agent's end ends, in words for the user.
func reason(ctx context.Context) string {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause.Error()
	}
	return "it has stopped"
}

// Refuse tells the user's side that the agent does not take the tunnel, and why.
func Refuse(ctx context.Context, hub Hub, reason string) error {
	return retry.Until(ctx, clock.RealClock{}, retry.Quick(longestWait), func(ctx context.Context) error {
		conn, err := hub(ctx)
		var ended *EndedError
		if errors.As(err, &ended) {
			return nil
		}
		if err != nil {
			return err
		}
		_ = conn.Close(websocket.StatusNormalClosure, text.Cut(reason, MaxReason))
		return nil
	})
}

// accept waits for the user's side.
func accept(ctx context.Context, listener *quic.Listener) (*quic.Conn, error) {
	waiting, cancel := context.WithTimeoutCause(ctx, Silence, ErrSilent)
	defer cancel()
	conn, err := listener.Accept(waiting)
	if err != nil && waiting.Err() != nil {
		return nil, context.Cause(waiting)
	}
	return conn, err
}

func serveConnection(ctx context.Context, conn *quic.Conn, target func(context.Context) (net.Conn, error)) {
	stop := context.AfterFunc(ctx, func() { _ = conn.CloseWithError(0, reason(ctx)) })
	defer stop()
	var streams sync.WaitGroup
	defer streams.Wait()
	for {
		s, err := conn.AcceptStream(ctx)
		if err != nil {
			return
		}
		streams.Go(func() { serveStream(ctx, &stream{Stream: s, conn: conn}, target) })
	}
}

func serveStream(ctx context.Context, s *stream, target func(context.Context) (net.Conn, error)) {
	defer func() { _ = s.Close() }()
	asked := []byte{0}
	if _, err := io.ReadFull(s, asked); err != nil {
		return
	}
	opening, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var to net.Conn
	err := fmt.Errorf("it does not know version %d of tunnels: update the agent", asked[0])
	if asked[0] == version {
		to, err = target(opening)
	}
	if err != nil {
		why := err.Error()
		_, _ = s.Write(append([]byte{refused}, why[:min(len(why), maxWhy)]...))
		_ = s.CloseWrite()
		return
	}
	defer func() { _ = to.Close() }()
	if _, err := s.Write([]byte{fine}); err != nil {
		return
	}
	Join(s, to)
}

// CloseWriter is a connection that can end what it sends before what it receives.
type CloseWriter interface {
	net.Conn
	CloseWrite() error
}

// Join carries bytes between two connections until both directions have ended, or one has
// failed. It closes both.
func Join(a, b net.Conn) {
	var directions sync.WaitGroup
	carry := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		sender, ok := to.(CloseWriter)
		if err != nil || !ok || sender.CloseWrite() != nil {
			_ = to.Close()
			_ = from.Close()
		}
	}
	directions.Go(func() { carry(a, b) })
	directions.Go(func() { carry(b, a) })
	directions.Wait()
	_ = a.Close()
	_ = b.Close()
}

// stream is a stream as a connection.
type stream struct {
	*quic.Stream
	conn *quic.Conn
}

func (s *stream) LocalAddr() net.Addr  { return s.conn.LocalAddr() }
func (s *stream) RemoteAddr() net.Addr { return s.conn.RemoteAddr() }

// CloseWrite ends what is sent.
func (s *stream) CloseWrite() error { return s.Stream.Close() }

// Close ends both directions. What was sent before is still delivered.
func (s *stream) Close() error {
	s.CancelRead(0)
	return s.Stream.Close()
}

// newCertificate makes the certificate that TLS within QUIC can't do without. Nobody
// verifies it.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.CreateCertificate(
		rand.Reader,
		&x509.Certificate{SerialNumber: big.NewInt(1)},
		&x509.Certificate{},
		key.Public(),
		key,
	)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
