package e2e

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// run runs muster to its end.
func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, muster, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

func TestUpAndDown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fleet")
	t.Cleanup(func() { _, _, _ = run(t, "down", "--data-dir", dir) })
	var first string
	for range 2 {
		out, errOut, err := run(t, "up", "--data-dir", dir, "--clusters", "2")
		if err != nil {
			t.Fatalf("up: %v\n%s%s", err, out, errOut)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 4 {
			t.Fatalf("got %q, want a heading and three lines", out)
		}
		for i, name := range []string{"hub", "cluster1", "cluster2"} {
			words := strings.Fields(lines[i+1])
			if len(words) != 3 || words[0] != name || !strings.HasPrefix(words[1], "https://127.0.0.1:") {
				t.Errorf("got %q, want it to describe %s", lines[i+1], name)
			}
			if _, err := os.Stat(words[len(words)-1]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if first == "" {
			first = out
		}
		if out != first {
			t.Errorf("the second time it says\n%s\nafter\n%s", out, first)
		}
	}
	for _, want := range []string{"hub stopped\ncluster1 stopped\ncluster2 stopped\n", "nothing to stop: nothing of the fleet in " + dir + " runs\n"} {
		if out, errOut, err := run(t, "down", "--data-dir", dir); err != nil || out != want {
			t.Errorf("down: got %q, %v, %s, want %q", out, err, errOut, want)
		}
	}
}

func TestDownOfNoFleetLeavesNoTrace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nothing")
	if out, errOut, err := run(t, "down", "--data-dir", dir); err != nil || !strings.Contains(out, "nothing to stop") {
		t.Errorf("got %q, %s, %v", out, errOut, err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder was made: %v", err)
	}
}

func TestWrongUseIsOneLineAndAFailure(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"up", "--data-dir", dir, "--driver", "minikube"},
		{"up", "--data-dir", dir, "--clusters", "-1"},
		{"devcluster"},
		{"devcluster", "--data-dir", dir, "-v=8"},
		{"hub", "--data-dir", dir, "-v=10"},
		{"devcluster", "--data-dir", dir, "--secure-port", "99999"},
		{"devcluster", "--data-dir", dir, "--name", "Not A Name"},
		{"replay", "only-a-cluster"},
		{"rejoin"},
	} {
		t.Run(strings.Join(args[:1], " ")+" "+args[len(args)-1], func(t *testing.T) {
			out, errOut, err := run(t, args...)
			if err == nil || out != "" || strings.Count(errOut, "\n") != 1 || !strings.HasPrefix(errOut, "Error: ") {
				t.Errorf("got %q, %q, %v", out, errOut, err)
			}
		})
	}
}

func TestDevclusterStopsInTimeAtAnyTime(t *testing.T) {
	for name, whenReady := range map[string]bool{"when ready": true, "while it starts": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(muster, "devcluster", "--data-dir", dir)
			var errOut bytes.Buffer
			cmd.Stderr = &errOut
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if whenReady {
				line, err := bufio.NewReader(out).ReadString('\n')
				if want := "kubeconfig " + filepath.Join(dir, "admin.kubeconfig") + "\n"; err != nil || !strings.HasPrefix(line, "cluster ready https://127.0.0.1:") || !strings.HasSuffix(line, want) {
					t.Errorf("got %q, %v", line, err)
				}
			} else {
				testkit.EventuallyThat(t, "the API server has begun to start", func() error {
					_, err := os.Stat(filepath.Join(dir, "admin.kubeconfig"))
					return err
				})
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v\n%s", err, errOut.String())
			}
			if took := time.Since(began); took > endsWithin {
				t.Errorf("took %s", took)
			}
		})
	}
}
