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

func TestWriteFileReplacesWhole(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	for _, content := range []string{"a longer first content", "short"} {
		if err := WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil || string(got) != content {
			t.Errorf("got %q, %v, want %q", got, err, content)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(entries) != 1 {
		t.Errorf("folder holds %v, want just the file (%v)", entries, err)
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
