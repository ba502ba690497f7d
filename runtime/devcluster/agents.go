package devcluster

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
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
