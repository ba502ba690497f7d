package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// The page in docs/scale is what the results beside it say.
func TestPage(t *testing.T) {
	const kept = "../../docs/scale"
	dir := t.TempDir()
	testkit.Must(t, os.CopyFS(dir, os.DirFS(kept)))
	testkit.Must(t, writeReport(dir))
	written, err := os.ReadDir(dir)
	testkit.Must(t, err)
	for _, f := range written {
		want, err := os.ReadFile(filepath.Join(dir, f.Name()))
		testkit.Must(t, err)
		if got, err := os.ReadFile(filepath.Join(kept, f.Name())); err != nil || string(got) != string(want) {
			t.Errorf("%s/%s is not what the results say: write it with go run ./tests/scale --report docs/scale",
				kept, f.Name())
		}
	}
}
