package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

const (
	dialTimeout = 10 * time.Second
	// revisionBump is how far a restored store counts on from what it has, which is more
	// than the store that it is a copy of can have come since: a thousand writes a second
	// for eleven days.
	revisionBump = 1_000_000_000
)

// SocketURL is where a member is reached that was started with runDir.
func SocketURL(runDir string) string {
	socket := filepath.Join(runDir, socketName)
	if elsewhere, err := os.Readlink(socket); err == nil {
		socket = elsewhere
	}
	return "unix://" + socket
}

// Snapshot reads a store as of this moment, with a checksum at its end, as Restore takes it.
func Snapshot(ctx context.Context, endpoint string) (io.ReadCloser, error) {
	c, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: []string{endpoint}, DialTimeout: dialTimeout, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the store: %w", err)
	}
	s, err := c.SnapshotWithVersion(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the store: %w", err), c.Close())
	}
	return &reading{s.Snapshot, c}, nil
}

// reading is a snapshot whose connection is closed with it.
type reading struct {
	io.ReadCloser
	client *clientv3.Client
}

func (r *reading) Close() error { return errors.Join(r.ReadCloser.Close(), r.client.Close()) }

// Restore makes the folder dir, which must not be there, of a store from the file with a
// snapshot of one. Clients of that one who come back read everything again, as its
// revisions count as compacted.
func Restore(file, dir string) error {
	cfg := config(dir, "", nil, nil)
	err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, OutputDataDir: dir, Name: cfg.Name, InitialCluster: cfg.InitialCluster,
		InitialClusterToken: cfg.InitialClusterToken, PeerURLs: []string{cfg.AdvertisePeerUrls[0].String()},
		RevisionBump: revisionBump, MarkCompacted: true,
	})
	if err != nil {
		return fmt.Errorf("restore the store: %w", err)
	}
	return inspect(dir)
}
