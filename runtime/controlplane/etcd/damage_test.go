package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// store makes a store with some hundred changes in it, a few snapshots
// included, and stops it.
func store(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "etcd")
	s := &Server{failures: newFailures()}
	cfg := config(dir, filepath.Join(filepath.Dir(dir), "s.sock"), s.failures, slog.Default())
	cfg.SnapshotCount = 200
	s.Endpoint = cfg.ListenClientUrls[0].String()
	var err error
	if s.member, err = s.open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	<-s.member.Server.ReadyNotify()
	c := client(t, s)
	defer c.Close()
	for i := range 500 {
		if _, err := c.Put(t.Context(), fmt.Sprintf("/key%d", i%90), strings.Repeat("x", 2000)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// copyOf is a copy of a store, which a test may damage.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	// The path is short, as sockets have short names.
	parent, err := os.MkdirTemp("", "muster-etcd-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	to := filepath.Join(parent, "etcd")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func startAndStop(ctx context.Context, dir string) error {
	s, err := Start(ctx, dir, filepath.Join(filepath.Dir(dir), "run"))
	if err == nil {
		s.Stop()
	}
	return err
}

// one finds the only, or the last, file that matches.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[len(found)-1]
}

func TestDamagedStoresAreRefused(t *testing.T) {
	original := store(t)
	if err := startAndStop(t.Context(), copyOf(t, original)); err != nil {
		t.Fatalf("an undamaged one: %v", err)
	}
	truncate := func(size int64) func(*testing.T, string) {
		return func(t *testing.T, file string) {
			if err := os.Truncate(file, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	overwrite := func(from, n int) func(*testing.T, string) {
		return func(t *testing.T, file string) {
			f, err := os.OpenFile(file, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(bytes.Repeat([]byte{0xA5}, n), int64(from)); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(t *testing.T, file string) {
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
	}
	database, log := "member/snap/db", "member/wal/*.wal"
	for _, tc := range []struct {
		name, file string
		damage     func(*testing.T, string)
	}{
		{"database cut in half", database, truncate(200_000)},
		{"database cut to its first pages", database, truncate(8192)},
		{"database cut within a page", database, truncate(5000)},
		{"database overwritten", database, overwrite(0, 300_000)},
		{"database with pages overwritten", database, overwrite(16384, 40_000)},
		{"log cut", log, truncate(200_000)},
		{"log cut within its head", log, truncate(50)},
		{"log emptied", log, truncate(0)},
		{"log overwritten", log, overwrite(0, 60_000_000)},
		{"log overwritten in its middle", log, overwrite(400_000, 20_000)},
		{"log with its end overwritten", log, overwrite(900_000, 200_000)},
		{"log removed", log, remove},
		{"folder of the log removed", "member/wal", remove},
		{"database removed that the log begins after", database, remove},
		{"folder of the database removed", "member/snap", remove},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := copyOf(t, original)
			tc.damage(t, one(t, filepath.Join(dir, tc.file)))
			err := startAndStop(t.Context(), dir)
			var damaged *DamagedError
			if !errors.As(err, &damaged) {
				t.Fatalf("got %v, want that it is damaged", err)
			}
			if s := err.Error(); strings.Contains(s, "\n") || !strings.Contains(s, dir) || !strings.Contains(s, "backup") {
				t.Errorf("got %q, want one line with the folder and the remedy", s)
			}
			t.Log(err)
		})
	}
}

// A crash may leave a store at each of these points, and they are not damage.
func TestStoresThatACrashLeavesAreOpened(t *testing.T) {
	original := store(t)
	for name, change := range map[string]func(dir string) error{
		"the last record of the log half written": func(dir string) error {
			log := one(t, filepath.Join(dir, "member/wal/*.wal"))
			content, err := os.ReadFile(log)
			if err != nil {
				return err
			}
			return os.WriteFile(log, append(bytes.TrimRight(content, "\x00"), 0, 0, 0, 0, 0, 0, 0, 0, 7, 7, 7), 0o600)
		},
		"a database that is empty yet, and no log": func(dir string) error {
			if err := os.RemoveAll(filepath.Join(dir, "member")); err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Join(dir, "member/snap"), 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "member/snap/db"), nil, 0o600)
		},
		"nothing": func(dir string) error { return os.RemoveAll(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, original)
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			if err := startAndStop(t.Context(), dir); err != nil {
				t.Error(err)
			}
		})
	}
}

// Whatever is in a database, looking at it ends with an answer.
func TestAnyDatabaseIsLookedAtSafely(t *testing.T) {
	original, err := os.ReadFile(one(t, filepath.Join(store(t), "member/snap/db")))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	file := filepath.Join(t.TempDir(), "db")
	refused := 0
	for range 100 {
		content := bytes.Clone(original)
		for range 1 + random.IntN(20) {
			at := random.IntN(len(content))
			if random.IntN(2) == 0 {
				at -= at % 4096 // what describes a page does so at its beginning
				at += random.IntN(64)
			}
			content[at] = byte(random.Uint32())
		}
		content = content[:len(content)-random.IntN(2)*random.IntN(len(content))]
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := lastApplied(file); err != nil {
			refused++
		}
	}
	if refused < 10 {
		t.Errorf("%d of 100 damaged databases were refused", refused)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	for name, patience := range map[string]time.Duration{"at once": 0, "while it opens the store": time.Millisecond, "before it is ready": 30 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, t.TempDir())
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			began := time.Now()
			err := startAndStop(ctx, dir)
			if took := time.Since(began); took > time.Minute {
				t.Errorf("took %s, %v", took, err)
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
	}
}
