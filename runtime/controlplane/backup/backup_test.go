package backup_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/go-logr/logr"
	clientv3 "go.etcd.io/etcd/client/v3"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/backup"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/etcd"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// world is a data directory with keys and a store, and who can open its backups.
type world struct {
	dir      string
	identity *age.X25519Identity
}

func newWorld(t *testing.T) *world {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	testkit.Must(t, err)
	w := &world{dir: filepath.Join(t.TempDir(), "hub"), identity: identity}
	testkit.Must(t, os.MkdirAll(filepath.Join(w.dir, "pki"), 0o700))
	testkit.Must(t, os.WriteFile(filepath.Join(w.dir, "pki", "ca.key"), []byte("the key"), 0o600))
	w.inStore(t, w.dir, func(c *clientv3.Client) {
		for i := range 100 {
			_, err := c.Put(t.Context(), fmt.Sprint("key-", i), strings.Repeat("x", 1000))
			testkit.Must(t, err)
		}
	})
	return w
}

// inStore calls do while the store of a data directory runs as that of a hub does.
func (w *world) inStore(t *testing.T, dir string, do func(*clientv3.Client)) {
	t.Helper()
	owned, err := datadir.Open(dir, "a test")
	testkit.Must(t, err)
	defer owned.Close()
	member, err := etcd.Start(t.Context(), filepath.Join(dir, "etcd"), filepath.Join(dir, "run"))
	testkit.Must(t, err)
	defer member.Stop()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{member.Endpoint}})
	testkit.Must(t, err)
	defer func() { _ = c.Close() }()
	do(c)
}

func (w *world) backUp(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	testkit.Must(t, backup.Write(t.Context(), &b, w.dir, "a test", now, w.identity.Recipient()))
	return b.Bytes()
}

func (w *world) restored(t *testing.T, content []byte) (dir string, err error) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "restored")
	info, err := backup.Restore(bytes.NewReader(content), dir, w.identity)
	if err == nil && (info.Keys != 1 || info.StoreBytes == 0 || !info.Time.Equal(now) || info.Program != "a test") {
		t.Errorf("the backup says %+v of itself", info)
	}
	return dir, err
}

// A restored store has what the other had, and counts on so far behind it that a client
// who watched the other is told to read everything again.
func TestARestoredStoreHasWhatItHad(t *testing.T) {
	w := newWorld(t)
	var content []byte
	var revision int64
	w.inStore(t, w.dir, func(c *clientv3.Client) {
		content = w.backUp(t) // while it runs
		later, err := c.Put(t.Context(), "later", "lost")
		testkit.Must(t, err)
		revision = later.Header.Revision
	})
	dir, err := w.restored(t, content)
	testkit.Must(t, err)
	key, err := os.ReadFile(filepath.Join(dir, "pki", "ca.key"))
	if err != nil || string(key) != "the key" {
		t.Errorf("the key is %q: %v", key, err)
	}
	w.inStore(t, dir, func(c *clientv3.Client) {
		has, err := c.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithCountOnly())
		testkit.Must(t, err)
		if has.Count != 100 || has.Header.Revision <= revision+1_000_000 {
			t.Errorf("the store has %d keys at revision %d, want 100 far behind %d",
				has.Count, has.Header.Revision, revision)
		}
		answer := <-c.Watch(t.Context(), "", clientv3.WithPrefix(), clientv3.WithRev(revision))
		if answer.CompactRevision == 0 {
			t.Errorf("a watch from before goes on: %+v", answer)
		}
	})
}

func TestAHubThatDoesNotRunIsBackedUp(t *testing.T) {
	w := newWorld(t)
	if _, err := w.restored(t, w.backUp(t)); err != nil {
		t.Error(err)
	}
}

// The socket of a member may have to lie elsewhere, as names of sockets are short.
func TestAHubInADeepFolderIsBackedUp(t *testing.T) {
	w := newWorld(t)
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	testkit.Must(t, os.Rename(w.dir, deep))
	w.dir = deep
	w.inStore(t, deep, func(*clientv3.Client) {
		if _, err := w.restored(t, w.backUp(t)); err != nil {
			t.Error(err)
		}
	})
}

func wantError(t *testing.T, err error, with string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), with) {
		t.Errorf("got %v, want an error with %q", err, with)
	}
}

func TestADamagedBackupRestoresNothing(t *testing.T) {
	w := newWorld(t)
	good := w.backUp(t)
	other, err := age.GenerateX25519Identity()
	testkit.Must(t, err)
	flipped := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	cases := map[string][]byte{
		"empty": nil, "another file": []byte("{}"), "the header changed": flipped(30),
		"the middle changed": flipped(len(good) / 2), "the end changed": flipped(len(good) - 1),
	}
	for i := range 10 {
		cases[fmt.Sprintf("%d tenths", i)] = good[:len(good)*i/10]
	}
	cases["the last byte missing"] = good[:len(good)-1]
	for name, content := range cases {
		t.Run(name, func(t *testing.T) {
			dir, err := w.restored(t, content)
			if err == nil {
				t.Fatal("it was restored")
			}
			if _, err := backup.Check(bytes.NewReader(content), w.identity); err == nil {
				t.Error("a check found nothing")
			}
			if _, err := backup.Restore(bytes.NewReader(good), dir, w.identity); err != nil {
				t.Errorf("a good one can't be restored to the same place then: %v", err)
			}
		})
	}
	_, err = backup.Check(bytes.NewReader(good), other)
	wantError(t, err, "can't be opened with this")
}

// Who knows an age recipient can make a backup for it.
func TestAForgedBackupWritesNothingElsewhere(t *testing.T) {
	w := newWorld(t)
	const unknown, newer = "no backup of a hub has", "restore it with that version or a newer one"
	const info = `{"format":1,"dataFormat":1,"program":"x","time":"2026-11-23T12:00:00Z"}`
	many := []tar.Header{}
	for i := range 101 {
		many = append(many, tar.Header{Name: fmt.Sprint("pki/f", i), Typeflag: tar.TypeReg})
	}
	for name, x := range map[string]struct {
		info    string
		entries []tar.Header
		want    string
	}{
		"a path":          {info, []tar.Header{{Name: "pki/../../evil", Typeflag: tar.TypeReg}}, unknown},
		"an absolute one": {info, []tar.Header{{Name: "/etc/evil", Typeflag: tar.TypeReg}}, unknown},
		"a hidden file":   {info, []tar.Header{{Name: "pki/.evil", Typeflag: tar.TypeReg}}, unknown},
		"a link":          {info, []tar.Header{{Name: "pki/ln", Typeflag: tar.TypeSymlink, Linkname: "/"}}, unknown},
		"a folder":        {info, []tar.Header{{Name: "pki/", Typeflag: tar.TypeDir}}, unknown},
		"a large key":     {info, []tar.Header{{Name: "pki/ca", Typeflag: tar.TypeReg, Size: 2 << 20}}, "too large"},
		"many keys":       {info, many, "one of too many"},
		"no store":        {info, []tar.Header{{Name: "pki/ca.key", Typeflag: tar.TypeReg}}, "not complete"},
		"no store at all": {info, []tar.Header{
			{Name: "pki/ca.key", Typeflag: tar.TypeReg}, {Name: "store/000000", Typeflag: tar.TypeReg, Size: 4096},
		}, "restore the store"},
		"a newer one":    {strings.Replace(info, `"format":1`, `"format":2`, 1), nil, newer},
		"newer data":     {strings.Replace(info, `"dataFormat":1`, `"dataFormat":3`, 1), nil, newer},
		"no description": {"", nil, "it is not a backup of a hub"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			encrypted, err := age.Encrypt(&b, w.identity.Recipient())
			testkit.Must(t, err)
			compressed := gzip.NewWriter(encrypted)
			archive := tar.NewWriter(compressed)
			entries := x.entries
			if x.info != "" {
				first := tar.Header{Name: "backup.json", Typeflag: tar.TypeReg, Size: int64(len(x.info))}
				entries = slices.Concat([]tar.Header{first}, entries)
			} else {
				entries = []tar.Header{{Name: "other.json", Typeflag: tar.TypeReg}}
			}
			for i, h := range entries {
				testkit.Must(t, archive.WriteHeader(&h))
				if i == 0 {
					_, err = io.WriteString(archive, x.info)
				} else {
					_, err = archive.Write(make([]byte, h.Size))
				}
				testkit.Must(t, err)
			}
			for _, c := range []io.Closer{archive, compressed, encrypted} {
				testkit.Must(t, c.Close())
			}
			dir, err := w.restored(t, b.Bytes())
			wantError(t, err, x.want)
			left, err := filepath.Glob(filepath.Join(dir, "..", "*"))
			testkit.Must(t, err)
			inside, err := os.ReadDir(dir)
			testkit.Must(t, err)
			if len(left) != 1 || len(inside) != 2 {
				t.Errorf("there is %v, and in it %v", left, inside)
			}
		})
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	w := newWorld(t)
	content := w.backUp(t)
	_, err := backup.Restore(bytes.NewReader(content), w.dir, w.identity)
	wantError(t, err, "is not empty")
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, []byte("mine"), 0o600))
	to := w.identity.Recipient()
	wantError(t, backup.WriteFile(t.Context(), file, w.dir, "a test", now, to), "name another one")
	wantError(t, backup.WriteFile(t.Context(), file+"2", t.TempDir(), "a test", now, to), "has no store")
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(left) != 1 {
		t.Errorf("there is %v", left)
	}
}

func TestScheduledBackups(t *testing.T) {
	w := newWorld(t)
	s := &backup.Schedule{
		Dir: t.TempDir(), Every: time.Hour, Keep: 2, To: []age.Recipient{w.identity.Recipient()}, Program: "a test",
	}
	other := filepath.Join(s.Dir, "hub-of-mine.backup")
	unfinished := filepath.Join(s.Dir, ".hub-20261122T120000Z.backup-123")
	testkit.Must(t, errors.Join(os.WriteFile(other, nil, 0o600), os.WriteFile(unfinished, nil, 0o600)))
	clock := clocktesting.NewFakeClock(now)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx, clock, w.dir, logr.Discard()) }()
	for i, want := range []string{"12", "12 13", "13 14", "14 15"} {
		testkit.Eventually(t, func() error {
			files, err := filepath.Glob(filepath.Join(s.Dir, "hub-2026*"))
			var hours []string
			for _, f := range files {
				hours = append(hours, strings.TrimPrefix(filepath.Base(f), "hub-20261123T")[:2])
			}
			if got := strings.Join(hours, " "); err != nil || got != want || !clock.HasWaiters() {
				return fmt.Errorf("after %d hours there are %q, want %q: %w", i, got, want, err)
			}
			return nil
		})
		clock.Step(time.Hour)
	}
	stop()
	<-ended
	if _, err := os.Stat(other); err != nil {
		t.Error("a file that is no scheduled backup is gone")
	}
	if _, err := os.Stat(unfinished); err == nil {
		t.Error("a backup that was never finished is still there")
	}
}

func TestSchedulesAreChecked(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	for want, s := range map[string]backup.Schedule{
		"is too short":              {Dir: t.TempDir(), Every: time.Second, Keep: 1},
		"keeps no backup":           {Dir: t.TempDir(), Every: time.Hour},
		"is in the data directory":  {Dir: filepath.Join(dir, "backups"), Every: time.Hour, Keep: 1},
		"it is a file":              {Dir: file, Every: time.Hour, Keep: 1},
		"no such file or directory": {Dir: filepath.Join(file+"s", "none"), Every: time.Hour, Keep: 1},
	} {
		wantError(t, s.Validate(dir), want)
	}
}

func TestKeysOfBackups(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(file, []byte(content), 0o600))
		return file
	}
	long, short := write("long", strings.Repeat("p", 32)+"\n"), write("short", "hunter2")
	identity, err := age.GenerateX25519Identity()
	testkit.Must(t, err)
	public := identity.Recipient().String()
	for want, f := range map[string]func() error{
		"always encrypted":        func() error { _, err := backup.Recipients(nil, ""); return err },
		"give one of them":        func() error { _, err := backup.Recipients([]string{public}, long); return err },
		`"age1x" can't be used`:   func() error { _, err := backup.Recipients([]string{"age1x"}, ""); return err },
		"has 7 characters":        func() error { _, err := backup.Recipients(nil, short); return err },
		"encrypted with":          func() error { _, err := backup.Identities("", ""); return err },
		"was encrypted with: the": func() error { _, err := backup.Identities(long, long); return err },
		"has no age identity":     func() error { _, err := backup.Identities(long, ""); return err },
		"read the passphrase":     func() error { _, err := backup.Identities("", dir+"/none"); return err },
	} {
		wantError(t, f(), want)
	}
	for _, f := range []func() error{
		func() error { _, err := backup.Recipients([]string{public, public}, ""); return err },
		func() error { _, err := backup.Identities(write("identity", identity.String()), ""); return err },
	} {
		testkit.Must(t, f())
	}
}
