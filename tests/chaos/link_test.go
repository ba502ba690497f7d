package chaos_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// link is a TCP proxy in front of servers, through which connections are broken as
// networks break them. It gives the servers connections by turns, and leaves out those
// that take none. It is safe for concurrent use.
type link struct {
	listener net.Listener
	turn     int // of serve alone

	mu       sync.Mutex
	servers  []string // host:port
	open     map[*connection]struct{}
	delay    time.Duration // of each piece of data, both ways
	deaf     bool          // what clients send arrives, and answers are lost
	silent   bool          // nothing arrives, and nobody is told
	refusing bool          // connections are closed as soon as they are opened
}

// connection is a client's connection and the one to the server.
type connection struct {
	link           *link
	client, server net.Conn
	// dead says that nothing arrives any longer on this connection, though both sides
	// have it open: so it stays when the network is well again.
	dead bool
}

func newLink(t testing.TB, servers ...string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	l := &link{servers: servers, listener: listener, open: map[*connection]struct{}{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.serve()
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
		l.cut()
	})
	return l
}

func (l *link) address() string { return l.listener.Addr().String() }

// leadTo sets the servers.
func (l *link) leadTo(servers ...string) { l.set(func() { l.servers = servers }) }

func (l *link) serve() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server := l.dial()
		if server == nil {
			_ = client.Close()
			continue
		}
		c := &connection{link: l, client: client, server: server}
		l.mu.Lock()
		l.open[c] = struct{}{}
		l.mu.Unlock()
		go c.copy(server, client, false)
		go c.copy(client, server, true)
	}
}

// dial connects to the next server that takes connections; nil is none of them.
func (l *link) dial() net.Conn {
	l.mu.Lock()
	servers, refusing := l.servers, l.refusing
	l.mu.Unlock()
	for range servers {
		l.turn++
		if server, err := net.Dial("tcp", servers[l.turn%len(servers)]); err == nil && refusing {
			_ = server.Close()
		} else if err == nil {
			return server
		}
	}
	return nil
}

// close ends all connections and lets nobody connect.
func (l *link) close() {
	l.set(func() { l.refusing = true })
	l.cut()
}

// slow delays everything.
func (l *link) slow() { l.set(func() { l.delay = 200 * time.Millisecond }) }

// silence loses everything, and nobody is told.
func (l *link) silence() { l.set(func() { l.silent = true }) }

// deafen loses the server's answers to what clients send.
func (l *link) deafen() { l.set(func() { l.deaf = true }) }

func (l *link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// cut closes all connections.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		c.close()
	}
}

// heal makes the network well again. Connections that have lost data are of no use
// any longer: those that are known to have broken are closed, and the others stay open
// and silent.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deaf {
		for c := range l.open {
			c.close()
		}
	}
	l.delay, l.deaf, l.silent, l.refusing = 0, false, false, false
}

// close is called with the lock held.
func (c *connection) close() {
	_, _ = c.client.Close(), c.server.Close()
	delete(c.link.open, c)
}

// copy sends what one side says to the other one.
func (c *connection) copy(to, from net.Conn, answers bool) {
	defer c.link.set(c.close)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && c.arrives(answers) {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// arrives waits as long as data takes, and reports whether it arrives.
func (c *connection) arrives(answers bool) bool {
	c.link.mu.Lock()
	delay := c.link.delay
	c.dead = c.dead || c.link.silent
	lost := c.dead || c.link.deaf && answers
	c.link.mu.Unlock()
	time.Sleep(delay)
	return !lost
}
