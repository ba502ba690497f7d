package tunnel_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/tunnel"
	"github.com/muster-fleet/terraform-provider-muster/internal/tunnel/tunneltest"
)

// echo is an API server that sends back what it gets.
func echo(t testing.TB) func(context.Context) (net.Conn, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	}
}

// open opens a tunnel with both ends. ended has why the agent's end ended.
func open(
	t testing.TB, r *tunneltest.Relay,
	target func(context.Context) (net.Conn, error),
) (c *tunnel.Client, withdraw context.CancelCauseFunc, ended chan error) {
	t.Helper()
	id := tunnel.NewID()
	ctx, cancel := context.WithCancelCause(context.Background())
	ended = make(chan error, 1)
	go func() { ended <- tunnel.Serve(ctx, r.Agent(t, id), target) }()
	t.Cleanup(func() { cancel(nil) })
	c, err := tunnel.Connect(t.Context(), r.User(t, id))
	testkit.Must(t, err)
	t.Cleanup(c.Close)
	return c, cancel, ended
}

func exchange(t testing.TB, c net.Conn, text string) {
	t.Helper()
	_, err := c.Write([]byte(text))
	testkit.Must(t, err)
	got := make([]byte, len(text))
	_, err = io.ReadFull(c, got)
	testkit.Must(t, err)
	if string(got) != text {
		t.Errorf("got %q, want %q", got, text)
	}
}

func TestConnectionsGoThroughSideBySide(t *testing.T) {
	c, _, ended := open(t, tunneltest.New(t), echo(t))
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			conn, err := c.Open(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			exchange(t, conn, fmt.Sprintf("hello %d", i))
			sent := make([]byte, 1<<20)
			_, _ = rand.Read(sent)
			var both sync.WaitGroup
			both.Go(func() { // the end of one direction reaches the API server, which answers until then
				_, err := conn.Write(sent)
				if err := errors.Join(err, conn.(tunnel.CloseWriter).CloseWrite()); err != nil {
					t.Error(err)
				}
			})
			got, err := io.ReadAll(conn)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("got %d bytes back, %v", len(got), err)
			}
			both.Wait()
		})
	}
	all.Wait()
	c.Close()
	if err := <-ended; err == nil || err.Error() != "closed by the user" {
		t.Errorf("the agent's end: %v", err)
	}
}

func TestConnectionsOutliveTheHub(t *testing.T) {
	r := tunneltest.New(t)
	c, _, _ := open(t, r, echo(t))
	conn, err := c.Open(t.Context())
	testkit.Must(t, err)
	exchange(t, conn, "before")
	for range 3 {
		r.SetDown(true)
		_, err = conn.Write([]byte("while it is down"))
		testkit.Must(t, err)
		r.SetDown(false)
		got := make([]byte, len("while it is down"))
		_, err = io.ReadFull(conn, got)
		testkit.Must(t, err)
		exchange(t, conn, "after")
	}
}

func TestUserGetsToKnowWhyATunnelDoesNotOpen(t *testing.T) {
	for name, x := range map[string]struct {
		prepare func(*tunneltest.Relay, string)
		want    string
	}{
		"the hub refuses": {func(r *tunneltest.Relay, _ string) {
			of := schema.GroupResource{Resource: "accessrequests"}
			r.Refuse(apierrors.NewForbidden(of, "jo-1", errors.New("no right")))
		}, "no right"},
		"the agent refuses": {func(r *tunneltest.Relay, id string) {
			testkit.Must(t, tunnel.Refuse(t.Context(), func(ctx context.Context) (*websocket.Conn, error) {
				for !r.HasUser(id) {
					time.Sleep(time.Millisecond)
				}
				return r.Agent(t, id)(ctx)
			}, "the cluster's owner does not allow tunnels"))
		}, "the cluster's owner does not allow tunnels"},
		"nobody comes": {func(*tunneltest.Relay, string) {}, context.DeadlineExceeded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			r, id := tunneltest.New(t), tunnel.NewID()
			var prepared sync.WaitGroup
			prepared.Go(func() { x.prepare(r, id) })
			if strings.HasPrefix(name, "the hub") {
				prepared.Wait()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			if name == "nobody comes" {
				ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
			}
			defer cancel()
			_, err := tunnel.Connect(ctx, r.User(t, id))
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want %q", err, x.want)
			}
			prepared.Wait()
		})
	}
}

func TestWithdrawalEndsTheConnections(t *testing.T) {
	c, withdraw, ended := open(t, tunneltest.New(t), echo(t))
	conn, err := c.Open(t.Context())
	testkit.Must(t, err)
	exchange(t, conn, "hello")
	withdraw(&tunnel.EndedError{Reason: "the policy has changed"})
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
	<-c.Done()
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "the policy has changed") {
		t.Errorf("the user is told %v", err)
	}
	if _, err := c.Open(t.Context()); err == nil {
		t.Error("a connection opens in a tunnel that has ended")
	}
	<-ended
}

func TestAPIServerOutOfReachFailsTheConnectionAlone(t *testing.T) {
	target, down := echo(t), make(chan error, 1)
	c, _, _ := open(t, tunneltest.New(t), func(ctx context.Context) (net.Conn, error) {
		select {
		case err := <-down:
			return nil, err
		default:
			return target(ctx)
		}
	})
	down <- errors.New("connection refused")
	if _, err := c.Open(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "can't reach its API server: connection refused") {
		t.Errorf("got %v", err)
	}
	conn, err := c.Open(t.Context())
	testkit.Must(t, err)
	exchange(t, conn, "hello")
}

func TestIsID(t *testing.T) {
	for id, want := range map[string]bool{
		tunnel.NewID(): true, "": false, "0123456789abcdef": false,
		strings.Repeat("x", 32): false, strings.Repeat("a", 34): false,
	} {
		if got := tunnel.IsID(id); got != want {
			t.Errorf("IsID(%q) = %v", id, got)
		}
	}
}

// BenchmarkTunnel carries a megabyte there and back.
func BenchmarkTunnel(b *testing.B) {
	c, _, _ := open(b, tunneltest.New(b), echo(b))
	conn, err := c.Open(b.Context())
	testkit.Must(b, err)
	data := make([]byte, 1<<20)
	b.SetBytes(2 * int64(len(data)))
	for b.Loop() {
		go func() { _, _ = conn.Write(data) }()
		if _, err := io.ReadFull(conn, make([]byte, len(data))); err != nil {
			b.Fatal(err)
		}
	}
}
