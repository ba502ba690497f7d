package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
)

// musterEnv names the environment variable with the path of a built muster.
// Without it the tests build one.
const musterEnv = "MUSTER_BIN"

// muster is the program under test.
var muster string

func TestMain(m *testing.M) {
	logging.Setup(context.Background(), io.Discard, 0, false) // of the clients in the tests themselves
	os.Exit(func() int {
		muster = os.Getenv(musterEnv)
		if muster == "" {
			dir, err := os.MkdirTemp("", "muster-e2e-")
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			defer os.RemoveAll(dir)
			muster = filepath.Join(dir, "muster")
			build := exec.Command("go", "build", "-o", muster, "github.com/muster-fleet/terraform-provider-muster/runtime/cmd/muster")
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			build.Stderr = os.Stderr
			if err := build.Run(); err != nil {
				fmt.Fprintln(os.Stderr, "build muster:", err)
				return 1
			}
		}
		return m.Run()
	}())
}
