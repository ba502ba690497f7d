package devcluster

import (
	"context"
	"errors"
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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

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
