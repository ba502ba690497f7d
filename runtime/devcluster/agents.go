package devcluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
)

// agentOptions are what agents need.
type agentOptions struct {
	run    func(ctx context.Context, pod AgentPod) error
	clock  clock.WithTicker
	client kubernetes.Interface
	log    *slog.Logger
	// dir holds a folder of files for each pod.
	dir string
	// server is the dev cluster, without credentials.
	server rest.Config
}

// agents runs the agents of the klusterlets' pods, one for each pod.
type agents struct {
	agentOptions
	// changed is called with the pod whose agent has changed its state.
	changed func(types.NamespacedName)
	secrets corelisters.SecretLister

	mu      sync.Mutex
	pods    map[types.UID]*agentPod
	running sync.WaitGroup
}

func newAgents(o agentOptions) (*agents, error) {
	// What an earlier process left holds credentials, and is of no use.
	if err := os.RemoveAll(o.dir); err != nil {
		return nil, fmt.Errorf("remove the files of earlier pods: %w", err)
	}
	return &agents{agentOptions: o, pods: map[types.UID]*agentPod{}}, nil
}

// observe returns the state of the agent in a pod, and the container that it is
// in, "" for a pod without an agent. It starts an agent that has not been
// started, which runs until ctx ends at the latest.
func (a *agents) observe(ctx context.Context, pod *corev1.Pod) (container string, _ process) {
	c, args, ok := agentContainer(pod)
	if !ok || a.run == nil {
		return "", process{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pods[pod.UID]
	if p == nil && pod.DeletionTimestamp == nil {
		p = a.start(ctx, pod, c, args)
	}
	if p == nil {
		return c.Name, process{}
	}
	return c.Name, p.process()
}

// start is called with a.mu held.
func (a *agents) start(ctx context.Context, pod *corev1.Pod, c corev1.Container, args []string) *agentPod {
	ctx, cancel := context.WithCancel(ctx)
	p := &agentPod{
		agents:  a,
		log:     a.log.With("pod", key(pod)),
		pod:     pod,
		volumes: mountedSecrets(pod, c),
		dir:     filepath.Join(a.dir, string(pod.UID)),
		cancel:  cancel,
		renewed: make(chan struct{}, 1),
	}
	p.args, p.probed = args, c.ReadinessProbe != nil
	p.file = func(name string) (string, error) { return hostPath(name, c.VolumeMounts, p.volumes, p.volumesDir()) }
	a.pods[pod.UID] = p
	a.running.Go(func() {
		p.live(ctx)
		a.mu.Lock()
		delete(a.pods, pod.UID)
		a.mu.Unlock()
		a.changed(key(pod))
	})
	return p
}

// stop makes the agents of the pods of that name end, other than the one of
// the pod with the UID.
func (a *agents) stop(pod types.NamespacedName, except types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for uid, p := range a.pods {
		if key(p.pod) == pod && uid != except {
			p.cancel()
		}
	}
}

// stopping makes the agent of one pod end and reports whether it still runs.
func (a *agents) stopping(uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pods[uid]
	if p != nil {
		p.cancel()
	}
	return p != nil
}

// secretChanged brings the files of the pods that mount a Secret up to date.
func (a *agents) secretChanged(secret types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pods {
		if p.pod.Namespace == secret.Namespace && slices.ContainsFunc(p.volumes, func(v secretVolume) bool { return v.secret == secret.Name }) {
			select {
			case p.renewed <- struct{}{}:
			default: // there is one to receive already
			}
		}
	}
}

// wait returns when all agents have ended. Their context must have.
func (a *agents) wait() { a.running.Wait() }

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

// agentContainer finds the container of a pod that runs `muster agent`, and the
// arguments that follow these two words. ok is false for a pod of another kind.
func agentContainer(pod *corev1.Pod) (c corev1.Container, args []string, ok bool) {
	if pod.Labels[klusterlet.AppLabel] != klusterlet.Name || pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		return corev1.Container{}, nil, false
	}
	for _, c := range pod.Spec.Containers {
		words := slices.Concat(c.Command, c.Args)
		if len(c.Command) == 0 { // then it is the image's
			words = append([]string{"muster"}, words...)
		}
		if len(words) > 1 && path.Base(words[0]) == "muster" && words[1] == "agent" {
			return c, words[2:], true
		}
	}
	return corev1.Container{}, nil, false
}

// secretVolume is a Secret that a pod mounts.
type secretVolume struct {
	name     string // of the volume
	secret   string
	items    []corev1.KeyToPath // all keys under their own names when empty
	optional bool
}

// mountedSecrets are the Secrets in a container's files, in the pod's order.
func mountedSecrets(pod *corev1.Pod, c corev1.Container) []secretVolume {
	var volumes []secretVolume
	for _, v := range pod.Spec.Volumes {
		mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
		if v.Secret == nil || !mounted {
			continue
		}
		volumes = append(volumes, secretVolume{v.Name, v.Secret.SecretName, v.Secret.Items, ptr.Deref(v.Secret.Optional, false)})
	}
	return volumes
}

// files are the contents of the volume by path below its folder. missing is the
// first key that was asked for by name and is not there.
func (v secretVolume) files(data map[string][]byte) (files map[string][]byte, missing string) {
	if len(v.items) == 0 {
		return data, ""
	}
	files = map[string][]byte{}
	for _, item := range v.items {
		content, ok := data[item.Key]
		if !ok && !v.optional {
			return nil, item.Key
		}
		if ok {
			files[item.Path] = content
		}
	}
	return files, ""
}

// hostPath is where a file of a container is on this machine: in a Secret that the
// container mounts. A pod's author chooses the path, and may not get at any other
// file of this machine, so all else is refused. dir has a folder for each volume.
func hostPath(name string, mounts []corev1.VolumeMount, volumes []secretVolume, dir string) (string, error) {
	// A container's path is as seen from its root, whatever is in it.
	name = path.Clean("/" + name)
	// The deepest mount is the one that a path is in.
	mounts = slices.Clone(mounts)
	slices.SortStableFunc(mounts, func(a, b corev1.VolumeMount) int {
		return len(path.Clean(b.MountPath)) - len(path.Clean(a.MountPath))
	})
	for _, m := range mounts {
		rest, ok := strings.CutPrefix(name, strings.TrimSuffix(path.Clean("/"+m.MountPath), "/"))
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		inside := filepath.Join(m.Name, m.SubPath, rest)
		isSecret := slices.ContainsFunc(volumes, func(v secretVolume) bool { return v.name == m.Name })
		if !isSecret || !filepath.IsLocal(filepath.Join(m.SubPath, "."+rest)) {
			break
		}
		return filepath.Join(dir, inside), nil
	}
	return "", fmt.Errorf("the file %s is in no Secret that the container mounts, and a dev cluster's pods have no others: mount the Secret there",
		name)
}
