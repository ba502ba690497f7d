// Package testhub runs hubs and dev clusters as processes of their own, for
// tests of what talks to them from outside. They can be killed and started
// again at the same address. They end, and their folders go, with the test's
// process, also when that is killed.
//
// The program is built once for a test binary; MUSTER_BIN names one that is
// built already.
package testhub

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/lifeline"
)

const (
	startTimeout = 3 * time.Minute
	stopTimeout  = 20 * time.Second
)

// Process is a running hub or dev cluster.
type Process struct {
	// URL is the API server's address, which survives a restart.
	URL string
	// Kubeconfig is the path of a kubeconfig with all rights.
	Kubeconfig string

	program string
	args    []string
	dir     string

	cmd    *exec.Cmd
	pid    atomic.Int64
	exited chan error
	log    *tail
}

// StartHub starts a hub whose state is in dir, with further flags, at a free port unless
// they name one.
func StartHub(program, dir string, flags ...string) (*Process, error) {
	return start(&Process{program: program, args: append([]string{"hub"}, flags...), dir: dir}, "0")
}

// StartCluster starts a dev cluster whose state is in dir.
func StartCluster(program, dir string) (*Process, error) {
	return start(&Process{program: program, args: []string{"devcluster"}, dir: dir}, "0")
}

// StartControlPlane starts a control plane of package testenv whose state is in dir.
// program is the command testserver.
func StartControlPlane(program, dir string, flags ...string) (*Process, error) {
	return start(&Process{program: program, args: append([]string{"controlplane"}, flags...), dir: dir}, "0")
}

// StoreCommand is the argument by which StartStore's program knows that it is to be a
// member of an etcd.
const StoreCommand = "etcd-member"

// StartStore starts a member of an etcd outside of any hub, whose state is in dir. program
// says that it is ready as a cluster does, with its URL for clients, and takes further
// flags.
func StartStore(program, dir string, flags ...string) (*Process, error) {
	return start(&Process{program: program, args: append([]string{StoreCommand}, flags...), dir: dir}, "0")
}

// StartAgent starts an agent as a process of its own.
// It serves no health address and is not waited for.
func StartAgent(program, name, bootstrapKubeconfig, clusterKubeconfig string, flags ...string) (*Process, error) {
	p := &Process{program: program, args: append([]string{
		"agent", "--cluster-name", name, "--bootstrap-kubeconfig", bootstrapKubeconfig, "--kubeconfig", clusterKubeconfig,
	}, flags...)}
	if _, err := p.launch(); err != nil {
		return nil, err
	}
	return p, nil
}

// PID is the process's ID, also for those who look while it is started again.
func (p *Process) PID() int { return int(p.pid.Load()) }

// Exited is closed once the process has ended.
func (p *Process) Exited() <-chan error { return p.exited }

// Kill ends the process at once, as a crash does. The state stays.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.args[0], err)
	}
	<-p.exited //nolint:errcheck // that it was killed is no news
	return nil
}

// Restart starts the process again, a hub or cluster at its address.
func (p *Process) Restart() error {
	if p.URL == "" {
		_, err := p.launch()
		return err
	}
	at, err := url.Parse(p.URL)
	if err != nil {
		return fmt.Errorf("restarting %s: %w", p.args[0], err)
	}
	_, err = start(p, at.Port())
	return err
}

// RestartWith starts the process again, at its address and with other flags.
func (p *Process) RestartWith(flags ...string) error {
	p.args = append(p.args[:1:1], flags...)
	return p.Restart()
}

// RestartAs starts another version of the program in the process's place, at its address.
func (p *Process) RestartAs(program string) error {
	p.program = program
	return p.Restart()
}

// Stop ends the process in an orderly way.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.args[0], err)
	}
	select {
	case err := <-p.exited:
		if err != nil {
			return fmt.Errorf("stopping %s: %w\n%s", p.args[0], err, p.log)
		}
		return nil
	case <-time.After(stopTimeout):
		_ = p.Kill()
		return fmt.Errorf("%s did not stop within %s of SIGTERM\n%s", p.args[0], stopTimeout, p.log)
	}
}

// Log is the end of what the process wrote to its standard error.
func (p *Process) Log() string { return p.log.String() }

var readyLine = regexp.MustCompile(`^(?:hub|cluster) ready (\S+) kubeconfig (.+)$`)

// launch runs the program. ready gets what a hub or cluster says when it is
// ready: its URL and its kubeconfig.
func (p *Process) launch(flags ...string) (ready <-chan []string, err error) {
	p.log = &tail{}
	p.cmd = exec.Command(p.program, append(p.args[:len(p.args):len(p.args)], flags...)...)
	p.cmd.Stderr = p.log
	if err := lifeline.Attach(p.cmd, p.dir); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.args[0], err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.args[0], err)
	}
	p.pid.Store(int64(p.cmd.Process.Pid))
	exited := make(chan error, 1)
	found := make(chan []string, 1)
	go func() {
		scanner := bufio.NewScanner(stdout)
		for scanner.Scan() {
			if line := readyLine.FindStringSubmatch(strings.TrimSpace(scanner.Text())); line != nil {
				found <- line[1:]
			}
		}
		_, _ = io.Copy(io.Discard, stdout)
		exited <- p.cmd.Wait()
		close(exited)
	}()
	p.exited = exited
	return found, nil
}

func start(p *Process, port string) (*Process, error) {
	flags := []string{"--data-dir", p.dir}
	if !slices.Contains(p.args, "--secure-port") {
		flags = append(flags, "--secure-port", port)
	}
	ready, err := p.launch(flags...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	select {
	case found := <-ready:
		p.URL, p.Kubeconfig = found[0], found[1]
		return p, nil
	case err := <-p.exited:
		return nil, fmt.Errorf("starting %s: it ended: %w\n%s", p.args[0], err, p.log)
	case <-ctx.Done():
		_ = p.Kill()
		return nil, fmt.Errorf("starting %s: it was not ready within %s\n%s", p.args[0], startTimeout, p.log)
	}
}

// tail keeps the last of what is written to it.
type tail struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

const tailSize = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buffer.Write(p)
	if extra := t.buffer.Len() - tailSize; extra > 0 {
		t.buffer.Next(extra)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buffer.String()
}
