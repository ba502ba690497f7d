package devcluster

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
)

// simulatorWorkers is how many pods are looked at at a time.
const simulatorWorkers = 8

// simulator is the scheduler and the kubelet of a dev cluster: it gives pods a
// node, reports them running, and removes deleted ones.
type simulator struct {
	client     kubernetes.Interface
	pods       corelisters.PodLister
	synced     []cache.InformerSynced
	controller controller.Controller
	agents     *agents
	clock      clock.Clock
}

// newSimulator makes a simulator that reads from the informers of f, which the
// caller starts.
func newSimulator(clientset kubernetes.Interface, f informers.SharedInformerFactory, a *agents, clk clock.Clock, log *slog.Logger) (*simulator, error) {
	pods, secrets := f.Core().V1().Pods(), f.Core().V1().Secrets()
	s := &simulator{
		client: clientset,
		pods:   pods.Lister(),
		synced: []cache.InformerSynced{pods.Informer().HasSynced, secrets.Informer().HasSynced},
		agents: a,
		clock:  clk,
	}
	a.secrets = secrets.Lister()
	var err error
	s.controller, err = controller.NewUnmanaged("pods", controller.Options{
		Reconciler:              s,
		MaxConcurrentReconciles: simulatorWorkers,
		SkipNameValidation:      ptr.To(true), // a process may have several dev clusters
		Logger:                  logging.Library(log),
	})
	if err != nil {
		return nil, err
	}
	// Agents bring their files up to date by themselves: a change of a Secret
	// needs no pass over the pods.
	secretChanged := func(_ context.Context, o client.Object) []reconcile.Request {
		a.secretChanged(key(o))
		return nil
	}
	return s, errors.Join(
		s.controller.Watch(&source.Informer{Informer: pods.Informer(), Handler: &handler.EnqueueRequestForObject{}}),
		s.controller.Watch(&source.Informer{Informer: secrets.Informer(), Handler: handler.EnqueueRequestsFromMapFunc(secretChanged)}),
		s.controller.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			a.changed = func(pod types.NamespacedName) { q.Add(reconcile.Request{NamespacedName: pod}) }
			return nil
		})),
	)
}

// Run simulates until ctx ends and all agents have stopped.
func (s *simulator) Run(ctx context.Context) error {
	defer s.agents.wait()
	if !cache.WaitForCacheSync(ctx.Done(), s.synced...) {
		return nil
	}
	if err := s.controller.Start(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("simulate pods: %w", err)
	}
	return nil
}

// Reconcile brings one pod one step further. The agent of a pod ends with ctx,
// which is that of Run.
func (s *simulator) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	pod, err := s.pods.Pods(r.Namespace).Get(r.Name)
	if apierrors.IsNotFound(err) {
		s.agents.stop(r.NamespacedName, "")
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	s.agents.stop(r.NamespacedName, pod.UID) // of an earlier pod of the same name
	if pod.DeletionTimestamp != nil && s.agents.stopping(pod.UID) {
		return reconcile.Result{}, nil // a.changed queues the pod when its agent has ended
	}
	switch next(pod) {
	case bind:
		err = s.bind(ctx, pod)
	case finish:
		err = s.finish(ctx, pod)
	case report:
		err = s.report(ctx, pod)
	}
	// A pod that something else has changed or deleted is queued when the informer
	// has seen that.
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		err = nil
	}
	return reconcile.Result{}, err
}

func (s *simulator) bind(ctx context.Context, pod *corev1.Pod) error {
	err := s.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("bind the pod: %w", err)
	}
	return nil
}

func (s *simulator) finish(ctx context.Context, pod *corev1.Pod) error {
	err := s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil {
		return fmt.Errorf("delete the pod: %w", err)
	}
	return nil
}

func (s *simulator) report(ctx context.Context, pod *corev1.Pod) error {
	container, real := s.agents.observe(ctx, pod)
	status := observe(pod, container, real, s.clock.Now())
	if same(&pod.Status, &status) {
		return nil
	}
	changed := pod.DeepCopy()
	changed.Status = status
	_, err := s.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("report the pod's status: %w", err)
	}
	return nil
}

func key(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

const (
	// nodeName is where every pod is scheduled. There is no such Node.
	nodeName = "devcluster"
	hostIP   = "127.0.0.1"

	// FailAnnotation on a pod makes its containers fail with the annotation's
	// value as the message, for trying out what happens then.
	FailAnnotation = "devcluster.muster-fleet.io/fail"

	reasonCreating  = "ContainerCreating"
	reasonCrashLoop = "CrashLoopBackOff"
	reasonCompleted = "Completed"
	reasonError     = "Error"
)

// action is what the simulator does next with a pod.
type action int

const (
	// leave: nothing, until the pod changes.
	leave action = iota
	// bind: give the pod its node.
	bind
	// finish: let a deleted pod go.
	finish
	// report: write the pod's status.
	report
)

// next decides what to do with a pod.
func next(pod *corev1.Pod) action {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.DeletionTimestamp != nil && ptr.Deref(pod.DeletionGracePeriodSeconds, 0) == 0:
		return leave // only finalizers keep it, which others remove
	case pod.DeletionTimestamp != nil && !ended && len(pod.Finalizers) > 0:
		return report // what keeps it, such as a job, waits for its last status
	case pod.DeletionTimestamp != nil:
		return finish
	case len(pod.Spec.SchedulingGates) > 0 || ended:
		return leave
	case pod.Spec.NodeName == "":
		return bind
	}
	return report
}

// process is the state of the program in a pod's container.
type process struct {
	// running says that it runs, since startedAt.
	running   bool
	startedAt time.Time
	// ready says that its readiness probe succeeds.
	ready bool
	// failed says that it ran and ended; message says why, exitCode how.
	// When it neither runs nor failed it has not started yet, and message
	// says what it waits for.
	failed   bool
	message  string
	exitCode int32
	// restarts counts how often it was started again.
	restarts int32
}

// simulated is the process of a container in which nothing really runs.
func simulated(pod *corev1.Pod, now time.Time) process {
	if message, ok := pod.Annotations[FailAnnotation]; ok {
		return process{failed: true, message: message, exitCode: 1, startedAt: now}
	}
	return process{running: true, ready: true, startedAt: now}
}

// observe is the status that a pod has after one more step of its life.
// real is the process in agentContainer; all other containers are simulated. Both
// are zero for a pod without an agent.
func observe(pod *corev1.Pod, agentContainer string, real process, now time.Time) corev1.PodStatus {
	s := *pod.Status.DeepCopy()
	s.ObservedGeneration = pod.Generation
	if s.StartTime == nil {
		s.StartTime = ptr.To(metav1.NewTime(now).Rfc3339Copy())
	}
	s.HostIP, s.HostIPs = hostIP, []corev1.HostIP{{IP: hostIP}}
	s.PodIP = podIP(pod)
	s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}

	once := pod.Spec.RestartPolicy != corev1.RestartPolicyAlways
	// A pod that runs to an end has been seen running first.
	ended := once && pod.Status.Phase == corev1.PodRunning || pod.DeletionTimestamp != nil
	ready, failed, started := true, false, false
	statuses := make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers))
	for _, c := range pod.Spec.Containers {
		p := simulated(pod, s.StartTime.Time)
		if agentContainer != "" && c.Name == agentContainer {
			p = real
		}
		status := containerStatus(c, p, once, ended, find(pod.Status.ContainerStatuses, c.Name), now)
		ready = ready && status.Ready
		failed, started = failed || p.failed, started || p.running
		statuses = append(statuses, status)
	}
	s.ContainerStatuses = statuses
	s.InitContainerStatuses = initStatuses(pod, s.StartTime.Time)

	switch {
	case ended && failed, pod.DeletionTimestamp != nil:
		s.Phase = corev1.PodFailed
	case ended:
		s.Phase = corev1.PodSucceeded
	case ready || failed || started || pod.Status.Phase == corev1.PodRunning:
		s.Phase = corev1.PodRunning
	default:
		s.Phase = corev1.PodPending
	}
	setConditions(pod, &s, ready && !ended, now)
	return s
}

func containerStatus(c corev1.Container, p process, once, ended bool, old *corev1.ContainerStatus, now time.Time) corev1.ContainerStatus {
	startedAt := metav1.NewTime(p.startedAt).Rfc3339Copy()
	status := corev1.ContainerStatus{
		Name:         c.Name,
		Image:        c.Image,
		ImageID:      "simulated",
		RestartCount: p.restarts,
		Started:      ptr.To(p.running),
	}
	terminated := func() *corev1.ContainerStateTerminated {
		t := &corev1.ContainerStateTerminated{ExitCode: p.exitCode, Reason: reasonCompleted, Message: p.message, StartedAt: startedAt, FinishedAt: metav1.NewTime(now).Rfc3339Copy()}
		if p.exitCode != 0 {
			t.Reason = reasonError
		}
		return t
	}
	if old != nil {
		status.LastTerminationState = old.LastTerminationState
	}
	switch {
	case ended:
		status.Started = ptr.To(false)
		status.State.Terminated = terminated()
	case p.running:
		status.Ready = p.ready
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: startedAt}
	case p.failed && once:
		// It will end in the next step; until then it counts as running.
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: startedAt}
	case p.failed:
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reasonCrashLoop, Message: p.message}
		if old == nil || old.State.Waiting == nil || old.State.Waiting.Reason != reasonCrashLoop || old.RestartCount != p.restarts {
			status.LastTerminationState.Terminated = terminated()
		}
	default:
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reasonCreating, Message: p.message}
	}
	return status
}

// initStatuses let init containers be done, and sidecars be running.
func initStatuses(pod *corev1.Pod, started time.Time) []corev1.ContainerStatus {
	at := metav1.NewTime(started).Rfc3339Copy()
	var statuses []corev1.ContainerStatus
	for _, c := range pod.Spec.InitContainers {
		status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: "simulated", Ready: true, Started: ptr.To(false)}
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			status.Started = ptr.To(true)
			status.State.Running = &corev1.ContainerStateRunning{StartedAt: at}
		} else {
			status.State.Terminated = &corev1.ContainerStateTerminated{Reason: reasonCompleted, StartedAt: at, FinishedAt: at}
		}
		statuses = append(statuses, status)
	}
	return statuses
}

func setConditions(pod *corev1.Pod, s *corev1.PodStatus, containersReady bool, now time.Time) {
	reason := ""
	if !containersReady {
		reason = "ContainersNotReady"
		if s.Phase == corev1.PodSucceeded {
			reason = "PodCompleted"
		}
	}
	gates := slices.IndexFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool {
		i := indexCondition(s.Conditions, g.ConditionType)
		return i < 0 || s.Conditions[i].Status != corev1.ConditionTrue
	})
	set := func(t corev1.PodConditionType, ok bool, reason string) {
		c := corev1.PodCondition{Type: t, Status: corev1.ConditionFalse, Reason: reason, ObservedGeneration: pod.Generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy()}
		if ok {
			c.Status = corev1.ConditionTrue
		}
		i := indexCondition(s.Conditions, t)
		if i < 0 {
			s.Conditions = append(s.Conditions, c)
			return
		}
		if s.Conditions[i].Status == c.Status {
			c.LastTransitionTime = s.Conditions[i].LastTransitionTime
		}
		s.Conditions[i] = c
	}
	set(corev1.PodReadyToStartContainers, true, "")
	set(corev1.PodInitialized, true, "")
	set(corev1.ContainersReady, containersReady, reason)
	if containersReady && gates >= 0 {
		set(corev1.PodReady, false, "ReadinessGatesNotReady")
		return
	}
	set(corev1.PodReady, containersReady, reason)
}

func indexCondition(conditions []corev1.PodCondition, t corev1.PodConditionType) int {
	return slices.IndexFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == t })
}

func find(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}

// podIP is an address of the pod's own, always the same one.
func podIP(pod *corev1.Pod) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(pod.UID)) // never fails
	sum := h.Sum32()
	return net.IPv4(10, 244+byte(sum>>16)%4, byte(sum>>8), 1+byte(sum)%254).String()
}

// same reports whether writing the status would change nothing.
func same(a, b *corev1.PodStatus) bool { return apiequality.Semantic.DeepEqual(a, b) }

const (
	// tokenLifetime is what kubelets ask for.
	tokenLifetime = 3607 * time.Second
	// tokenRenewal is the part of a token's life after which it is renewed.
	tokenRenewal = 0.8
)

func (p *agentPod) tokenFile() string { return filepath.Join(p.dir, "token") }

// writeToken puts a fresh token of the pod's service account into its file. It
// ends with the pod, as the tokens of real pods do.
func (p *agentPod) writeToken(ctx context.Context) (renew time.Time, err error) {
	account := p.pod.Spec.ServiceAccountName
	now := p.clock.Now()
	request, err := p.client.CoreV1().ServiceAccounts(p.pod.Namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: ptr.To(int64(tokenLifetime / time.Second)),
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.pod.Name, UID: p.pod.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("get a token of service account %q: %w", account, err)
	}
	if err := write(p.tokenFile(), []byte(request.Status.Token)); err != nil {
		return time.Time{}, err
	}
	life := request.Status.ExpirationTimestamp.Sub(now)
	return now.Add(time.Duration(tokenRenewal * float64(life))), nil
}

// writeVolumes makes the folders of the pod's Secret volumes hold what the
// Secrets do.
func (p *agentPod) writeVolumes() error {
	for _, v := range p.volumes {
		secret, err := p.secrets.Secrets(p.pod.Namespace).Get(v.secret)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("read secret %q for volume %q: %w", v.secret, v.name, err)
		}
		var data map[string][]byte
		if err == nil {
			data = secret.Data
		} else if !v.optional {
			return fmt.Errorf("volume %q: secret %q not found in namespace %s: create it", v.name, v.secret, p.pod.Namespace)
		}
		files, missing := v.files(data)
		if missing != "" {
			return fmt.Errorf("volume %q: secret %q has no key %q: add it", v.name, v.secret, missing)
		}
		if err := writeFolder(filepath.Join(p.volumesDir(), v.name), files); err != nil {
			return fmt.Errorf("volume %q: %w", v.name, err)
		}
	}
	return nil
}

// writeFolder makes dir hold the files, and no others at its top.
func writeFolder(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := write(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, ok := files[e.Name()]; !ok && !e.IsDir() {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func write(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(name, content, 0o600)
}
