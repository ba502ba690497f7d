package etcd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestDataSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	for i, run := range []string{filepath.Join(dir, "run"), filepath.Join(dir, strings.Repeat("long", 40))} {
		s, err := Start(t.Context(), filepath.Join(dir, "data"), run)
		if err != nil {
			t.Fatal(err)
		}
		c := client(t, s)
		if i == 0 {
			if _, err := c.Put(t.Context(), "k", "v"); err != nil {
				t.Fatal(err)
			}
		} else if got, err := c.Get(t.Context(), "k"); err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "v" {
			t.Errorf("after the restart: got %v, %v", got, err)
		}
		_ = c.Close()
		s.Stop()
	}
}

// A client that can dial the store can read every secret in it, so there must be one
// way in, through a folder that is closed to others, and no abstract socket or
// TCP port beside it.
func TestOnlyTheOwnerCanDial(t *testing.T) {
	dir := t.TempDir()
	before := listeners(t)
	s, err := Start(t.Context(), filepath.Join(dir, "data"), filepath.Join(dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	socket := strings.TrimPrefix(s.Endpoint, "unix://")
	info, err := os.Stat(filepath.Dir(socket))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's folder: %v, %v, want mode 0700", info.Mode(), err)
	}
	for l := range listeners(t) {
		if !before[l] && l != "unix "+socket {
			t.Errorf("unexpected listener: %s", l)
		}
	}
}

// listeners lists this process's listening sockets.
func listeners(t *testing.T) map[string]bool {
	t.Helper()
	inodes := map[string]bool{}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc to list a process's sockets")
	}
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				inodes[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	found := map[string]bool{}
	for file, state := range map[string]string{"tcp": "0A", "tcp6": "0A", "unix": "00010000"} {
		b, err := os.ReadFile("/proc/self/net/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(b), "\n")[1:] {
			f := strings.Fields(line)
			switch {
			case file != "unix" && len(f) > 9 && f[3] == state && inodes[f[9]]:
				found[file+" "+f[1]] = true
			case file == "unix" && len(f) > 6 && f[3] == state && inodes[f[6]]:
				found[file+" "+strings.Join(f[7:], "")] = true
			}
		}
	}
	return found
}

func client(t *testing.T, s *Server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint}, DialTimeout: 10 * time.Second, Context: context.WithoutCancel(t.Context())})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
