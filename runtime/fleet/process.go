package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
)

const (
	// stopTimeout is how long a process may take to end after it was asked to.
	stopTimeout = 10 * time.Second
	// killTimeout is how long the kernel may take to end a process.
	killTimeout = 5 * time.Second
	// glance is how often a process that is not a child, or a file that it
	// writes, is looked at: nothing says when they change.
	glance = 20 * time.Millisecond
)

// process is a muster process with a data directory of its own. The lock on
// the data directory shows whether it runs.
type process struct {
	name    string
	program string
	args    []string // without --data-dir and --secure-port
	dir     string
	host    string // the address that it listens on; 127.0.0.1 when empty
}

func (p process) log() string { return filepath.Join(p.dir, logFile) }

// start makes the process run and returns once it is ready. port is what it
// had last, or 0.
func (p process) start(ctx context.Context, port int) (Member, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("it was not ready after %s", startTimeout))
	defer cancel()
	m := Member{Name: p.name, Kubeconfig: kubeconfigOf(p.dir)}
	if datadir.Owner(p.dir) != 0 {
		m.Found = true
		url, err := waitAnswers(ctx, m.Kubeconfig)
		if err != nil {
			return m, fmt.Errorf("%s runs but does not get ready: %w (log: %s)", p.name, err, p.log())
		}
		m.URL = url
		return m, nil
	}
	if err := p.portIsFree(port); err != nil {
		return m, err
	}
	url, err := p.spawn(ctx, port)
	if err != nil {
		return m, fmt.Errorf("%s did not start: %w (log: %s)", p.name, err, p.log())
	}
	m.URL = url
	return m, nil
}

// portIsFree finds out early what the process would find out: by then the
// message could not say that it is a remembered port.
func (p process) portIsFree(port int) error {
	if port == 0 {
		return nil
	}
	host := p.host
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s did not start: its port %d is used by another process: "+
			"stop that process, or let %s take another port by removing this one from fleet.json", p.name, port, p.name)
	}
	if err == nil {
		_ = l.Close()
	}
	return nil // any other error the process says itself
}

// spawn starts the process in a session of its own, so that it outlives this
// one, and returns its URL once it has said that it is ready.
func (p process) spawn(ctx context.Context, port int) (url string, err error) {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return "", err
	}
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return "", err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return "", err
	}
	args := append([]string{}, p.args...)
	args = append(args, "--data-dir="+p.dir, "--secure-port="+strconv.Itoa(port))
	cmd := exec.Command(p.program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start %s: %w", p.program, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return waitSaysReady(ctx, log, info.Size(), ended)
}

// stop asks the process to end, makes it end when it does not, and returns once
// it has. It reports whether there was one.
func (p process) stop(ctx context.Context) (found bool, err error) {
	pid := datadir.Owner(p.dir)
	if pid == 0 {
		return false, nil
	}
	proc, err := os.FindProcess(pid)
	if err != nil {
		return true, fmt.Errorf("find process %d of %s: %w", pid, p.name, err)
	}
	defer proc.Release()
	// The handle is of one process for good; that it is the holder of the lock
	// still has to be so after it was taken.
	if datadir.Owner(p.dir) != pid {
		return false, nil
	}
	for _, step := range []struct {
		signal  os.Signal
		timeout time.Duration
	}{{syscall.SIGTERM, stopTimeout}, {syscall.SIGKILL, killTimeout}} {
		if err := proc.Signal(step.signal); errors.Is(err, os.ErrProcessDone) {
			return true, nil
		} else if err != nil {
			return true, fmt.Errorf("stop %s, process %d: %w", p.name, pid, err)
		}
		stepCtx, cancel := context.WithTimeout(ctx, step.timeout)
		err := waitGone(stepCtx, proc, p.dir)
		cancel()
		if err == nil {
			return true, nil
		}
		if ctx.Err() != nil {
			return true, fmt.Errorf("stop %s, process %d: %w", p.name, pid, ctx.Err())
		}
	}
	return true, fmt.Errorf("stop %s: process %d does not end, not even by SIGKILL: see what it hangs on with `ps -o stat,wchan %d`", p.name, pid, pid)
}

// waitGone returns when the process has ended and given back its data directory.
func waitGone(ctx context.Context, proc *os.Process, dir string) error {
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		if proc.Signal(syscall.Signal(0)) != nil && datadir.Owner(dir) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
