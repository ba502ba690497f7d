package devcluster

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
)

const (
	// steadyAfter is how long an agent has to run for its next failure to count as
	// the first.
	steadyAfter = time.Minute

	// setupRetry is after how long the start of an agent is tried again, unless a
	// Secret changes before.
	setupRetry = 10 * time.Second

	// runsAfter is how long an agent has to run to count as running: one that
	// can't start, as with an argument that it does not know, never does, like a
	// pod whose probe never succeeds.
	runsAfter = 200 * time.Millisecond

	// stopTimeout is how long an agent may take to end. One that takes longer is
	// left behind, so that it does not hold up its cluster.
	stopTimeout = 5 * time.Second
)

// restartPolicy is how long to wait before an agent that ended is started again:
// as in the kubelet without jitter, but shorter.
func restartPolicy() wait.Backoff {
	b := retry.Restart(30 * time.Second)
	b.Jitter = 0
	return b
}

// errEnded is why an agent that returned without an error is started again.
var errEnded = errors.New("the agent ended by itself")

// agentPod is the agent of one pod.
type agentPod struct {
	*agents
	log  *slog.Logger
	pod  *corev1.Pod
	args []string
	// probed says that a readiness probe asks the agent.
	probed  bool
	file    func(string) (string, error)
	volumes []secretVolume
	dir     string
	cancel  context.CancelFunc
	// renewed says that a mounted Secret has changed.
	renewed chan struct{}

	mu  sync.Mutex
	now process
}

func (p *agentPod) volumesDir() string { return filepath.Join(p.dir, "volumes") }

// process returns the state of the agent.
func (p *agentPod) process() process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *agentPod) set(now process) {
	p.mu.Lock()
	changed := p.now != now
	p.now = now
	p.mu.Unlock()
	if changed {
		p.changed(key(p.pod))
	}
}

// live runs the agent again and again until ctx ends.
func (p *agentPod) live(ctx context.Context) {
	defer func() {
		if err := os.RemoveAll(p.dir); err != nil {
			p.log.Warn("remove the files of an agent's pod", "err", err)
		}
	}()
	backoff, restarts := retry.New(p.clock, restartPolicy()), int32(0)
	for ctx.Err() == nil {
		token, err := p.setUp(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			p.set(process{message: err.Error(), restarts: restarts})
			retry.Sleep(ctx, p.clock, setupRetry, p.renewed)
			continue
		}
		started := p.clock.Now()
		p.log.Info("starting the agent of a klusterlet", "args", p.args)
		err = p.once(ctx, token, process{running: true, ready: !p.probed, startedAt: started, restarts: restarts})
		if ctx.Err() != nil {
			return
		}
		if p.clock.Since(started) >= steadyAfter {
			backoff.Reset()
		}
		ended := process{failed: true, startedAt: started, restarts: restarts, message: errEnded.Error()}
		if err != nil {
			ended.message, ended.exitCode = err.Error(), 1
		}
		after := backoff.Next()
		p.log.Warn("an agent ended and is started again", "after", after, "reason", ended.message)
		p.set(ended)
		retry.Sleep(ctx, p.clock, after, nil)
		restarts++
	}
}

// setUp makes the files that a pod finds, and returns when the token among them
// should be renewed.
func (p *agentPod) setUp(ctx context.Context) (renewToken time.Time, err error) {
	if err := p.writeVolumes(); err != nil {
		return time.Time{}, err
	}
	return p.writeToken(ctx)
}

// once runs the agent until it ends, reports that it runs once it does, and that it is
// ready once it says so, and keeps its files up to date meanwhile.
func (p *agentPod) once(ctx context.Context, renewToken time.Time, running process) error {
	config := rest.CopyConfig(&p.server)
	config.BearerTokenFile = p.tokenFile()
	ended, ready := make(chan error, 1), make(chan struct{}, 1)
	sayReady := sync.OnceFunc(func() { ready <- struct{}{} })
	go func() {
		ended <- p.run(ctx, AgentPod{Args: p.args, Config: config, File: p.file, Ready: sayReady, Log: p.log})
	}()
	token := p.clock.NewTimer(renewToken.Sub(p.clock.Now()))
	defer token.Stop()
	runningYet := p.clock.NewTimer(runsAfter)
	defer runningYet.Stop()
	for runs := false; ; {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			select {
			case err := <-ended:
				return err
			case <-p.clock.After(stopTimeout):
				p.log.Warn("an agent does not end and is left behind", "after", stopTimeout)
			}
			return ctx.Err()
		case <-runningYet.C():
			runs = true
			p.set(running)
		case <-ready:
			running.ready = true
			if runs {
				p.set(running)
			}
		case <-p.renewed:
			if err := p.writeVolumes(); err != nil {
				p.log.Warn("update the files of an agent's pod", "err", err)
			}
		case <-token.C():
			next, err := p.writeToken(ctx)
			if err != nil {
				p.log.Warn("renew the token of an agent's pod: trying again", "after", setupRetry, "err", err)
				next = p.clock.Now().Add(setupRetry)
			}
			token.Reset(next.Sub(p.clock.Now()))
		}
	}
}
