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
	"k8s.io/client-go/rest"
)

const (
	// An agent that ends is started again after firstBackoff, then after twice
	// as long, up to maxBackoff; one that ran for steadyAfter begins anew.
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	steadyAfter  = time.Minute

	// setupRetry is after how long what keeps an agent from starting is looked
	// at again when nothing is heard before.
	setupRetry = 10 * time.Second

	// readyAfter is how long an agent has to run to count as running: one that
	// can't start, as with an argument that it does not know, never does, like a
	// pod whose probe never succeeds.
	readyAfter = 200 * time.Millisecond

	// stopTimeout is how long an agent may take to end once it was told to; one
	// that takes longer is left behind, so that it holds up nobody.
	stopTimeout = 5 * time.Second
)

// errEnded is why an agent that returned without an error is started again.
var errEnded = errors.New("the agent ended by itself")

// agentPod is the agent of one pod.
type agentPod struct {
	*agents
	pod     *corev1.Pod
	args    []string
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

// process is how the agent fares.
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
	log := slog.With("pod", key(p.pod))
	defer func() {
		if err := os.RemoveAll(p.dir); err != nil {
			log.Warn("remove the files of an agent's pod", "err", err)
		}
	}()
	backoff, restarts := firstBackoff, int32(0)
	for {
		token, err := p.setUp(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			p.set(process{message: err.Error(), restarts: restarts})
			select {
			case <-ctx.Done():
				return
			case <-p.renewed:
			case <-p.clock.After(setupRetry):
			}
			continue
		}
		started := p.clock.Now()
		log.Info("starting the agent of a klusterlet", "args", p.args)
		err = p.once(ctx, token, process{running: true, startedAt: started, restarts: restarts})
		if ctx.Err() != nil {
			return
		}
		if p.clock.Since(started) >= steadyAfter {
			backoff = firstBackoff
		}
		ended := process{failed: true, startedAt: started, restarts: restarts, message: errEnded.Error()}
		if err != nil {
			ended.message, ended.exitCode = err.Error(), 1
		}
		log.Warn("an agent ended and is started again", "after", backoff, "reason", ended.message)
		p.set(ended)
		select {
		case <-ctx.Done():
			return
		case <-p.clock.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
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

// once runs the agent until it ends, reports that it runs once it does, and keeps
// its files up to date meanwhile.
func (p *agentPod) once(ctx context.Context, renewToken time.Time, running process) error {
	config := rest.CopyConfig(&p.server)
	config.BearerTokenFile = p.tokenFile()
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx, AgentPod{Args: p.args, Config: config, File: p.file}) }()
	token := p.clock.NewTimer(renewToken.Sub(p.clock.Now()))
	defer token.Stop()
	ready := p.clock.NewTimer(readyAfter)
	defer ready.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			select {
			case err := <-ended:
				return err
			case <-p.clock.After(stopTimeout):
				slog.Warn("an agent does not end and is left behind", "pod", key(p.pod), "after", stopTimeout)
			}
			return ctx.Err()
		case <-ready.C():
			p.set(running)
		case <-p.renewed:
			if err := p.writeVolumes(); err != nil {
				slog.Warn("update the files of an agent's pod", "pod", key(p.pod), "err", err)
			}
		case <-token.C():
			next, err := p.writeToken(ctx)
			if err != nil {
				slog.Warn("renew the token of an agent's pod: trying again", "pod", key(p.pod), "after", setupRetry, "err", err)
				next = p.clock.Now().Add(setupRetry)
			}
			token.Reset(next.Sub(p.clock.Now()))
		}
	}
}
