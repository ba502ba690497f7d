// Package etcd runs an etcd member inside this process.
//
// It is a cluster of one: there are no peers, so there is no peer listener,
// and clients come in over a Unix socket in a folder that only this user can
// enter. Nothing else on the machine can read the store.
package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// A cluster of one elects itself as soon as its election timer ends, so a
	// short one saves more than a second at each start. The price is a tick
	// every 10 ms, 0.7 % of a core.
	tickMilliseconds     = 10
	electionMilliseconds = 100

	// quotaBytes is how large the store may grow before etcd refuses writes.
	quotaBytes = 8 << 30

	// maxSocketPath is what the kernel takes as the name of a Unix socket.
	maxSocketPath = 100

	readyTimeout = time.Minute
)

// Server is a running member. Stop it to give its files back.
type Server struct {
	// Endpoint is the URL that clients in this process dial.
	Endpoint string

	member    *embed.Etcd
	socketDir string
}

// Start runs a member that keeps its data in dir and returns when it takes
// requests. The socket is made in runDir, or, where that path is too long for
// a socket, in a new temporary folder.
func Start(ctx context.Context, dir, runDir string) (*Server, error) {
	s := &Server{}
	socket, err := s.socketPath(runDir)
	if err != nil {
		return nil, err
	}
	cfg := config(dir, socket)
	s.Endpoint = cfg.ListenClientUrls[0].String()
	s.member, err = embed.StartEtcd(cfg)
	if err != nil {
		s.removeSocketDir()
		return nil, fmt.Errorf("start etcd in %s: %w", dir, err)
	}
	select {
	case <-s.member.Server.ReadyNotify():
		return s, nil
	case err = <-s.member.Err():
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(readyTimeout):
		err = fmt.Errorf("not ready after %s", readyTimeout)
	}
	s.Stop()
	return nil, fmt.Errorf("start etcd in %s: %w", dir, err)
}

// Err delivers the reason when the member stops by itself.
func (s *Server) Err() <-chan error { return s.member.Err() }

// Stop ends the member after its last write is on the disk.
func (s *Server) Stop() {
	// Close would first wait for clients to go, up to its request timeout. By
	// the time that Stop is called there is nobody left to serve.
	s.member.Server.HardStop()
	s.member.Close()
	s.removeSocketDir()
}

func (s *Server) removeSocketDir() {
	if s.socketDir != "" {
		_ = os.RemoveAll(s.socketDir)
	}
}

func (s *Server) socketPath(runDir string) (string, error) {
	path := filepath.Join(runDir, "etcd.sock")
	if len(path) > maxSocketPath {
		tmp, err := os.MkdirTemp("", "muster-etcd-") // mode 0700
		if err != nil {
			return "", fmt.Errorf("make a folder for etcd's socket: %w", err)
		}
		s.socketDir = tmp
		return filepath.Join(tmp, "etcd.sock"), nil
	}
	if err := os.MkdirAll(runDir, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for etcd's socket: %w", err)
	}
	if err := os.Chmod(runDir, 0o700); err != nil {
		return "", fmt.Errorf("close the folder of etcd's socket to others: %w", err)
	}
	return path, nil
}

func config(dir, socket string) *embed.Config {
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
	// The API server compacts the store by itself, every five minutes.
	cfg.AutoCompactionMode = embed.CompactorModePeriodic
	cfg.AutoCompactionRetention = "0"
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(slogCore{}))
	return cfg
}

// expected are warnings and errors that etcd logs in the course of a normal
// life here, and that would only worry a reader.
var expected = map[string]bool{
	// There is one socket, for this process alone.
	"Running http and grpc server on single port. This is not recommended for production.": true,
	// Nobody logs in to this etcd.
	"simple token is not cryptographically signed": true,
	// A new store has no version yet; it gets one a moment later.
	"Failed to detect schema version":  true,
	"failed to update storage version": true,
	// Stop closes the listener under the server's feet. A listener that fails
	// at the start is reported by Start.
	"setting up serving from embedded etcd failed.": true,
	"stopping insecure grpc server due to error":    true,
	"stopped insecure grpc server due to error":     true,
}

// slogCore hands etcd's log lines to the program's logger. etcd warns of slow
// requests and disks at level warn; what it says at level info is for those
// who asked for more.
type slogCore struct{ fields []zapcore.Field }

func (c slogCore) Enabled(level zapcore.Level) bool {
	return slog.Default().Enabled(context.Background(), slogLevel(level))
}

func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	return slogCore{fields: append(append([]zapcore.Field(nil), c.fields...), fields...)}
}

func (c slogCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c slogCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range append(c.fields, fields...) {
		f.AddTo(enc)
	}
	args := make([]any, 0, 2*len(enc.Fields)+2)
	args = append(args, "component", "etcd")
	for k, v := range enc.Fields {
		args = append(args, k, v)
	}
	level := slogLevel(entry.Level)
	if expected[entry.Message] {
		level = slog.LevelDebug
	}
	slog.Log(context.Background(), level, entry.Message, args...)
	return nil
}

func (c slogCore) Sync() error { return nil }

func slogLevel(level zapcore.Level) slog.Level {
	switch {
	case level >= zapcore.ErrorLevel:
		return slog.LevelError
	case level == zapcore.WarnLevel:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}
