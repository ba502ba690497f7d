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
	if _, err := Open(path, "muster v1"); err == nil || !strings.Contains(err.Error(), "in use by process") || !strings.Contains(err.Error(), "--data-dir") {
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
		}, []string{"muster v9.1.0", "format 99", "up to 1", "--data-dir"}},
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
