package atomicfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
)

func TestWriteReplacesWhole(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	for _, content := range []string{"a longer first content", "short"} {
		if err := atomicfile.Write(name, []byte(content), 0o600); err != nil {
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
