// Package etcd runs an etcd member inside this process.
//
// It is a cluster of one: there are no peers, so there is no peer listener. The API server
// calls it (Server.Client), and other clients come in over a Unix socket in a folder that
// only this user can enter. Nothing else on the machine can read the store.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apimachinery/pkg/util/waitgroup"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
)

const (
	// A cluster of one elects itself as soon as its election timer ends, so a
	// short one saves more than a second at each start. The price is a tick
	// every 10 ms, 0.7 % of a core.
	tickMilliseconds     = 10
	electionMilliseconds = 100

	// quotaBytes is how large the store may grow before etcd refuses writes.
	quotaBytes = 8 << 30

	// Of its log of writes a member keeps the last ones in memory, for members that
	// are behind. There are none, so it keeps as few as it can: these and 100 more, of
	// up to 1.5 MB each. The usual 5,000 are gigabytes when writes are large.
	catchUpEntries = 16
	// snapshotCount is after how many writes the log on the disk begins again. A start
	// reads that many again.
	snapshotCount = 5000

	// socketName is what a member's socket is called, and maxSocketPath how long a name of
	// one may be.
	socketName    = "etcd.sock"
	maxSocketPath = 100

	readyTimeout = time.Minute
	// abandonAfter is how long the opening of a store is waited for that nobody
	// wants any more.
	abandonAfter = 2 * time.Second

	// stopTimeout is how long a member may take to end that has failed: it may
	// hold locks that nobody gives back, and has nothing more to write.
	stopTimeout = 200 * time.Millisecond
)

// Server is a running member. Stop it to give its files back.
type Server struct {
	// Endpoint is the URL that clients in this process dial.
	Endpoint string

	member    *embed.Etcd
	failures  *failures
	socketDir string

	// calls are those of clients without a connection.
	calls waitgroup.SafeWaitGroup

	mu      sync.Mutex
	clients []*clientv3.Client
}

// Start runs a member that keeps its data in dir and returns when it takes
// requests, or ctx has ended. The socket is made in runDir, or, where that path
// is too long for a socket, in a new temporary folder.
//
// The error is a *DamagedError where dir holds what no member left there.
func Start(ctx context.Context, dir, runDir string) (*Server, error) {
	if err := inspect(dir); err != nil {
		return nil, err
	}
	s := &Server{failures: newFailures()}
	socket, err := s.socketPath(runDir)
	if err != nil {
		return nil, err
	}
	cfg := config(dir, socket, s.failures, logging.FromContext(ctx))
	s.Endpoint = cfg.ListenClientUrls[0].String()
	if s.member, err = s.open(ctx, cfg); err != nil {
		s.removeSocketDir()
		return nil, explain(dir, err)
	}
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	select {
	case <-s.member.Server.ReadyNotify():
		return s, nil
	case err = <-s.member.Err():
	case <-s.failures.first:
		err = s.failures.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout.C:
		err = fmt.Errorf("not ready after %s: its disk is very slow, or its log in %s and its database in %s are not of one time: look at the disk, or put the data directory back from a backup",
			readyTimeout, filepath.Join(dir, "member", "wal"), filepath.Join(dir, "member", "snap"))
	}
	s.Stop()
	return nil, explain(dir, err)
}

// open opens the store. A member may end the goroutine that opens it, and takes
// no notice of a context.
func (s *Server) open(ctx context.Context, cfg *embed.Config) (*embed.Etcd, error) {
	type result struct {
		member *embed.Etcd
		err    error
	}
	opened := make(chan result, 1)
	go func() {
		r := result{err: errors.New("it gave up")}
		defer func() {
			if p := recover(); p != nil {
				r.err = &DamagedError{Dir: cfg.Dir, Reason: fmt.Errorf("it can't be read: %v", p)}
			} else if r.member == nil && s.failures.failed() {
				r.err = s.failures.err
			}
			opened <- r
		}()
		// A damaged database may make a page fault of what should be a read.
		debug.SetPanicOnFault(true)
		r.member, r.err = embed.StartEtcd(cfg)
	}()
	select {
	case r := <-opened:
		return r.member, r.err
	case <-ctx.Done():
		// The opening can't be stopped. It is waited for, so that nothing writes to
		// the directory any more, unless it hangs.
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			if r := <-opened; r.member != nil {
				r.member.Close()
			}
		}()
		select {
		case <-closed:
		case <-time.After(abandonAfter):
		}
		return nil, ctx.Err()
	}
}

// explain says what was being done, unless the error does.
func explain(dir string, err error) error {
	var damaged *DamagedError
	var failed *FailedError
	switch {
	case errors.As(err, &damaged):
		return err
	case errors.As(err, &failed) && !failed.full():
		// What a member gives up on before it is ready is what it reads.
		return &DamagedError{Dir: dir, Reason: failed}
	}
	return fmt.Errorf("start etcd in %s: %w", dir, err)
}

// Err delivers the reason when the member stops by itself.
func (s *Server) Err() <-chan error {
	reason := make(chan error, 1)
	go func() {
		select {
		case err, ok := <-s.member.Err():
			if ok {
				reason <- err
			}
		case <-s.failures.first:
			reason <- s.failures.err
		case <-s.member.Server.StopNotify():
		}
		close(reason)
	}()
	return reason
}

// Stop ends the member after its last write is on the disk.
func (s *Server) Stop() {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		// Close would first wait for clients to go, up to its request timeout. By
		// the time that Stop is called there is nobody left to serve.
		s.endCalls()
		s.member.Server.HardStop()
		s.member.Close()
	}()
	if s.failures.failed() {
		select {
		case <-stopped:
		case <-time.After(stopTimeout):
		}
	} else {
		<-stopped
	}
	s.removeSocketDir()
}

func (s *Server) removeSocketDir() {
	if s.socketDir != "" {
		_ = os.RemoveAll(s.socketDir)
	}
}

// socketPath makes the folder of the socket. Where the name of a socket in runDir is too
// long for the kernel, it is in a new temporary folder, and a link in runDir leads there.
func (s *Server) socketPath(runDir string) (string, error) {
	if err := os.MkdirAll(runDir, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for etcd's socket: %w", err)
	}
	if err := os.Chmod(runDir, 0o700); err != nil {
		return "", fmt.Errorf("close the folder of etcd's socket to others: %w", err)
	}
	path := filepath.Join(runDir, socketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("remove the socket of a member that was killed: %w", err)
	}
	if len(path) <= maxSocketPath {
		return path, nil
	}
	tmp, err := os.MkdirTemp("", "muster-etcd-") // mode 0700
	if err != nil {
		return "", fmt.Errorf("make a folder for etcd's socket: %w", err)
	}
	s.socketDir = tmp
	socket := filepath.Join(tmp, socketName)
	return socket, os.Symlink(socket, path)
}

func config(dir, socket string, f *failures, log *slog.Logger) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name = "muster"
	cfg.Dir = dir
	client := url.URL{Scheme: "unix", Path: socket}
	cfg.ListenClientUrls = []url.URL{client}
	cfg.AdvertiseClientUrls = []url.URL{client}
	// No peer will ever dial the advertised address, and nothing listens on
	// it; etcd's configuration just wants one that is well-formed.
	cfg.ListenPeerUrls = nil
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	cfg.AdvertisePeerUrls = []url.URL{peer}
	cfg.InitialCluster = cfg.Name + "=" + peer.String()
	cfg.TickMs = tickMilliseconds
	cfg.ElectionMs = electionMilliseconds
	cfg.QuotaBackendBytes = quotaBytes
	// A watch without news learns each minute where the store is, and not every ten.
	cfg.WatchProgressNotifyInterval = time.Minute
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = snapshotCount, catchUpEntries
	// The API server compacts the store by itself, every five minutes.
	cfg.AutoCompactionMode = embed.CompactorModePeriodic
	cfg.AutoCompactionRetention = "0"
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newLogger(log, f))
	return cfg
}
