package devcluster

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
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

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
)

const simulatorWorkers = 8

// simulator is the scheduler and the kubelet of a dev cluster: it gives pods a
// node, reports them running, and lets deleted ones go.
type simulator struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	synced []cache.InformerSynced
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
	agents *agents
	clock  clock.Clock
}

func newSimulator(client kubernetes.Interface, f informers.SharedInformerFactory, a *agents, clk clock.Clock) (*simulator, error) {
	pods, secrets := f.Core().V1().Pods(), f.Core().V1().Secrets()
	s := &simulator{
		client: client,
		pods:   pods.Lister(),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()),
		agents: a,
		clock:  clk,
	}
	a.changed = s.queue.Add
	a.secrets = secrets.Lister()
	podHandler, err := pods.Informer().AddEventHandler(onEvent(func(o metav1.Object) { s.queue.Add(key(o)) }))
	if err != nil {
		return nil, err
	}
	secretHandler, err := secrets.Informer().AddEventHandler(onEvent(func(o metav1.Object) { a.secretChanged(key(o)) }))
	if err != nil {
		return nil, err
	}
	s.synced = []cache.InformerSynced{podHandler.HasSynced, secretHandler.HasSynced}
	return s, nil
}

// Run simulates until ctx ends and all agents have stopped.
func (s *simulator) Run(ctx context.Context) {
	defer s.agents.wait()
	if !cache.WaitForCacheSync(ctx.Done(), s.synced...) {
		return
	}
	context.AfterFunc(ctx, s.queue.ShutDown)
	workers := make([]controlplane.Controller, simulatorWorkers)
	for i := range workers {
		workers[i] = s.work
	}
	controlplane.RunAll(ctx, workers)
}

func (s *simulator) work(ctx context.Context) {
	for {
		k, stop := s.queue.Get()
		if stop {
			return
		}
		err := s.sync(ctx, k)
		switch {
		case err == nil:
			s.queue.Forget(k)
		case ctx.Err() == nil:
			if !apierrors.IsConflict(err) { // somebody else wrote; the informer catches up
				slog.Warn("simulate a pod: trying again", "pod", k, "err", err)
			}
			s.queue.AddRateLimited(k)
		}
		s.queue.Done(k)
	}
}

// sync brings one pod one step further.
func (s *simulator) sync(ctx context.Context, k types.NamespacedName) error {
	pod, err := s.pods.Pods(k.Namespace).Get(k.Name)
	if apierrors.IsNotFound(err) {
		s.agents.stop(k, "")
		return nil
	}
	if err != nil {
		return err
	}
	s.agents.stop(k, pod.UID) // of an earlier pod of the same name
	if pod.DeletionTimestamp != nil && s.agents.stopping(pod.UID) {
		return nil // its end brings us back
	}
	switch next(pod) {
	case bind:
		return s.bind(ctx, pod)
	case finish:
		return s.finish(ctx, pod)
	case report:
		return s.report(ctx, pod)
	}
	return nil
}

func (s *simulator) bind(ctx context.Context, pod *corev1.Pod) error {
	err := s.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
	}, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, another one, or bound already: the informer tells
	}
	return err
}

func (s *simulator) finish(ctx context.Context, pod *corev1.Pod) error {
	err := s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
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
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("report its status: %w", err)
	}
	return nil
}

// onEvent calls f with every object that is added, changed or deleted.
func onEvent(f func(metav1.Object)) cache.ResourceEventHandler {
	object := func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if m, ok := o.(metav1.Object); ok {
			f(m)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: object, UpdateFunc: func(_, o any) { object(o) }, DeleteFunc: object}
}

func key(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
