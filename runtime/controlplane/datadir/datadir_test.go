package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenTakesAndGivesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hub")
	d, err := Open(path, "muster v1")
	if err != nil {
		t.Fatal(err)
	}
	if got := Owner(path); got != os.Getpid() {
		t.Errorf("owner while open: got %d, want this process %d", got, os.Getpid())
	}
	if _, err := Open(path, "muster v1"); err == nil || !strings.Contains(err.Error(), "in use by process") ||
		!strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("second open: got %v, want an error that names the process and the remedy", err)
	}
	d.Close()
	if got := Owner(path); got != 0 {
		t.Errorf("owner after close: got %d, want 0", got)
	}
	again, err := Open(path, "muster v2")
	if err != nil {
		t.Fatalf("open after close: %v", err)
	}
	defer again.Close()
	f, err := readFormat(path)
	if err != nil || f == nil || *f != (format{Format: Format, WrittenBy: "muster v2"}) {
		t.Errorf("format file: got %+v, %v", f, err)
	}
}

// A folder or a link that is another user's is refused whatever its mode; only
// root can make one in a test.
func TestOpenRefusesWhatBelongsToAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	theirs, link := filepath.Join(dir, "theirs"), filepath.Join(dir, "link")
	mustMake(t, theirs, 0o700)
	if err := os.Chown(theirs, 4321, 4321); err != nil {
		t.Fatal(err)
	}
	mustMake(t, filepath.Join(dir, "ours"), 0o700)
	if err := os.Symlink(filepath.Join(dir, "ours"), link); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(link, 4321, 4321); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{theirs: "belongs to another user", link: "symbolic link of another user"} {
		if d, err := Open(path, "muster v1"); err == nil || !strings.Contains(err.Error(), want) {
			if d != nil {
				d.Close()
			}
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		setup func(t *testing.T, path string)
		want  []string
	}{
		{"a newer format", func(t *testing.T, path string) {
			mustWrite(t, filepath.Join(path, formatFile), `{"format":99,"writtenBy":"muster v9.1.0"}`)
		}, []string{"muster v9.1.0", "format 99", "up to 2", "--data-dir"}},
		{"a damaged format file", func(t *testing.T, path string) {
			mustWrite(t, filepath.Join(path, formatFile), `{"for`)
		}, []string{"format.json", "damaged", "--data-dir"}},
		{"a file in the folder's place", func(t *testing.T, path string) {
			mustWrite(t, path, "hello")
		}, []string{"is a file", "--data-dir"}},
		{"a folder that all can write to", func(t *testing.T, path string) {
			mustMake(t, path, 0o777)
		}, []string{"can be written to by others", "0777", "chmod 700"}},
		{"a folder that its group can write to", func(t *testing.T, path string) {
			mustMake(t, path, 0o770)
		}, []string{"can be written to by others", "0770", "chmod 700"}},
		{"a link to a folder that all can write to", func(t *testing.T, path string) {
			mustMake(t, path+"-target", 0o777)
			if err := os.Symlink(path+"-target", path); err != nil {
				t.Fatal(err)
			}
		}, []string{"can be written to by others", "chmod 700"}},
		{"a folder that cannot be made", func(t *testing.T, path string) {
			mustWrite(t, filepath.Dir(path), "a file where the parent folder should be")
		}, []string{"cannot make the data directory", "not a directory"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "parent", "hub")
			tc.setup(t, path)
			_, err := Open(path, "muster v1")
			if err == nil {
				t.Fatal("opened, want an error")
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error has more than one line: %q", err)
			}
		})
	}
}

// An older format stays until it is converted, which keeps what was there.
func TestConvert(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hub")
	mustWrite(t, filepath.Join(path, formatFile), `{"format":1,"writtenBy":"muster v0.1.0"}`)
	mustWrite(t, filepath.Join(path, "pki", "ca.key"), "key")
	mustWrite(t, filepath.Join(path, "etcd", "member", "snap", "db"), "store")
	mustWrite(t, filepath.Join(path, "run", "x"), "not copied")
	mustWrite(t, filepath.Join(path, ".before-format", "etcd", "db"), "of a start that was killed")
	open := func() *Dir {
		t.Helper()
		d, err := Open(path, "muster v0.2.0")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	format := func(dir string) int {
		t.Helper()
		f, err := readFormat(dir)
		if err != nil || f == nil {
			t.Fatalf("%s: %v", dir, err)
		}
		return f.Format
	}
	open().Close()
	if got := format(path); got != 1 {
		t.Errorf("it was opened and not converted, and has format %d", got)
	}
	d := open()
	before, err := d.Convert()
	if err != nil || before != filepath.Join(path, "before-format-2") {
		t.Fatalf("converted with %q, %v", before, err)
	}
	d.Close()
	if old, new := format(before), format(path); old != 1 || new != 2 {
		t.Errorf("the copy has format %d, and the folder %d", old, new)
	}
	for name, want := range map[string]string{"pki/ca.key": "key", "etcd/member/snap/db": "store", "run/x": "", "etcd/db": ""} {
		got, err := os.ReadFile(filepath.Join(before, name))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("the copy's %s has %q, %v", name, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(before, "pki", "ca.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy of a key: %v, %v", info.Mode(), err)
	}
	// Who has gone back and comes again has a copy of what is there then.
	mustWrite(t, filepath.Join(path, formatFile), `{"format":1,"writtenBy":"muster v0.1.0"}`)
	mustWrite(t, filepath.Join(path, "pki", "ca.key"), "changed")
	d = open()
	defer d.Close()
	if again, err := d.Convert(); err != nil || again != before {
		t.Errorf("converted again with %q, %v", again, err)
	}
	if got, _ := os.ReadFile(filepath.Join(before, "pki", "ca.key")); string(got) != "changed" {
		t.Errorf("the second copy's key is %q", got)
	}
	if again, err := d.Convert(); err != nil || again != "" {
		t.Errorf("a folder of this format: %q, %v", again, err)
	}
}

func mustWrite(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mustMake(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
}
