package lifeline

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// roleEnv makes this test's program play a parent or its child.
const roleEnv = "LIFELINE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "parent":
		playParent(os.Args[1])
	case "child":
		ctx, remove := Follow(context.Background())
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Fprintln(os.Stderr, "nobody reads this")
		_ = remove()
	default:
		os.Exit(m.Run())
	}
}

// playParent starts the child, says so, and stays until it is killed.
func playParent(folder string) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), roleEnv+"=child")
	child.Stdout, child.Stderr = os.Stdout, &bytes.Buffer{} // a pipe to the parent
	if err := Attach(child, folder); err != nil {
		panic(err)
	}
	if err := child.Run(); err != nil {
		panic(err)
	}
}

func TestTheChildOfAKilledParentEndsAndRemovesTheFolder(t *testing.T) {
	folder := t.TempDir()
	parent := exec.Command(os.Args[0], folder)
	parent.Env = append(os.Environ(), roleEnv+"=parent")
	out, err := parent.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, parent.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("the child says %q", lines.Text())
	}
	testkit.Must(t, parent.Process.Kill())
	if lines.Scan() { // ends when the child does, which has the same output
		t.Fatalf("the child says %q", lines.Text())
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	_ = parent.Wait()
}

func TestAChildThatIsStoppedByItsParentLeavesTheFolder(t *testing.T) {
	folder := t.TempDir()
	read, write, err := os.Pipe()
	testkit.Must(t, err)
	_, remove := follow(t.Context(), read, folder)
	testkit.Must(t, remove())
	if _, err := os.Stat(folder); err != nil {
		t.Error(err)
	}
	testkit.Must(t, write.Close())
}
