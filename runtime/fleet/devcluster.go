package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
)

// devclusters is the driver of `muster devcluster` processes.
type devclusters struct {
	dir     string
	program string
	state   *state
}

func (d *devclusters) process(name string) process {
	return process{
		name:    name,
		program: d.program,
		args:    []string{"devcluster", "--name=" + name},
		dir:     filepath.Join(d.dir, name),
	}
}

func (d *devclusters) Start(ctx context.Context, name string) (Member, error) {
	known, _ := d.state.cluster(name)
	m, err := d.process(name).start(ctx, known.Port)
	if err != nil {
		return m, err
	}
	port, err := portOf(m.URL)
	if err != nil {
		return m, err
	}
	return m, d.state.setCluster(name, clusterState{Driver: DriverDevcluster, Port: port})
}

func (d *devclusters) Stop(ctx context.Context, name string) error {
	_, err := d.process(name).stop(ctx)
	return err
}

func (d *devclusters) List(context.Context) ([]string, error) {
	entries, err := os.ReadDir(d.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the fleet's clusters: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && datadir.Owner(filepath.Join(d.dir, e.Name())) != 0 {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func portOf(server string) (int, error) {
	u, err := url.Parse(server)
	if err != nil {
		return 0, fmt.Errorf("the URL of an API server: %w", err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return 0, fmt.Errorf("the URL %s of an API server names no port", server)
	}
	return port, nil
}

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

// waitSaysReady follows a process's log from an offset until it says where its
// API server is, or the process has ended, which it then explains.
func waitSaysReady(ctx context.Context, log io.ReaderAt, from int64, ended <-chan error) (url string, err error) {
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		var exit error
		gone := false
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case exit = <-ended:
			gone = true
		case <-tick.C:
		}
		text, err := io.ReadAll(io.NewSectionReader(log, from, 1<<62))
		if err != nil {
			return "", fmt.Errorf("read its log: %w", err)
		}
		if gone {
			return "", errors.New(whyEnded(text, exit))
		}
		if url, ok := readyLine(text); ok {
			return url, nil
		}
	}
}

// readyLine finds "hub ready URL kubeconfig PATH", or the same of a cluster.
func readyLine(log []byte) (url string, ok bool) {
	for line := range bytes.Lines(log) {
		words := strings.Fields(string(line))
		if bytes.HasSuffix(line, []byte("\n")) && len(words) >= 5 && words[1] == "ready" && words[3] == "kubeconfig" && (words[0] == "hub" || words[0] == "cluster") {
			return words[2], true
		}
	}
	return "", false
}

// whyEnded is the reason why a process ended, in one line: what it said last as
// its error, or else how it ended.
func whyEnded(log []byte, exit error) string {
	last := ""
	for line := range strings.Lines(string(log)) {
		line = strings.TrimSpace(line)
		if reason, ok := strings.CutPrefix(line, "Error: "); ok {
			return reason
		}
		if line != "" {
			last = line
		}
	}
	how := "it ended by itself"
	var exitErr *exec.ExitError
	if errors.As(exit, &exitErr) {
		how = "it ended with " + exitErr.Error()
	}
	if last == "" {
		return how
	}
	return how + ": " + last
}

// waitAnswers asks the API server of a kubeconfig whether it is ready until it
// is, and returns its URL. The file may be written only later.
func waitAnswers(ctx context.Context, kubeconfig string) (url string, err error) {
	tick := time.NewTicker(5 * glance)
	defer tick.Stop()
	for {
		url, err := answers(ctx, kubeconfig)
		if err == nil {
			return url, nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func answers(ctx context.Context, kubeconfig string) (url string, err error) {
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		return "", err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return "", fmt.Errorf("%s: %w", kubeconfig, err)
	}
	config.Timeout = 5 * time.Second
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", fmt.Errorf("%s: %w", kubeconfig, err)
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(config.Host, "/")+"/readyz", nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s/readyz answers %s", config.Host, resp.Status)
	}
	return config.Host, nil
}
