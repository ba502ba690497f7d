// Package clusterimport installs the agent in clusters whose kubeconfig somebody hands
// to the hub, keeps it as it should be while the kubeconfig is there, and forgets the
// kubeconfig once the cluster has joined.
package clusterimport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Options say how imports are carried out.
type Options struct {
	// HubCA has signed the certificates of this hub's agents.
	HubCA []byte
	// AllowLoopback lets kubeconfigs lead to the hub's own machine.
	AllowLoopback bool
	// Workers is how many clusters are worked on side by side; 32 by default. One
	// that hangs takes a worker for a Timeout, and then waits longer and longer.
	Workers int
	// Timeout is how long one attempt may take; 30 seconds by default.
	Timeout time.Duration
	// FirstRetry and LastRetry bound the pause after a failed attempt, which doubles
	// each time; 5 seconds and 10 minutes by default.
	FirstRetry, LastRetry time.Duration
	// Look is how often the agent is looked at while its kubeconfig is there; 5
	// minutes by default, and a sixtieth of it until the cluster has joined.
	Look time.Duration
}

func (o Options) complete() Options {
	for at, standard := range map[*time.Duration]time.Duration{
		&o.Timeout: 30 * time.Second, &o.Look: 5 * time.Minute,
		&o.FirstRetry: 5 * time.Second, &o.LastRetry: 10 * time.Minute,
	} {
		if *at == 0 {
			*at = standard
		}
	}
	if o.Workers == 0 {
		o.Workers = 32
	}
	return o
}

// Controller reconciles ClusterImports.
type Controller struct {
	client  client.Client
	live    client.Reader
	events  events.EventRecorder
	clock   clock.PassiveClock
	options Options
}

// NewController makes the controller. live reads past the cache.
func NewController(
	c client.Client, live client.Reader, recorder events.EventRecorder, clk clock.PassiveClock, o Options,
) *Controller {
	return &Controller{client: c, live: live, events: recorder, clock: clk, options: o.complete()}
}

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("clusterimport").
		For(&v1alpha1.ClusterImport{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.ManagedCluster{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(watch.Changed(clusterChanged))).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.importsOfSecret),
			builder.WithPredicates(watch.When(isKubeconfig))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: c.options.Workers,
			RateLimiter:             newBackoff(c.options.FirstRetry, c.options.LastRetry),
		}).
		Complete(patch.RetryConflictsAfter(conflictPause, c))
}

// conflictPause is when an import is looked at again that had changed since it was
// read. The growing pauses are those for clusters that can't be reached.
const conflictPause = 100 * time.Millisecond

// Reconcile brings one import further, as far as it goes within one attempt, and
// writes down how far that is.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	imp := &v1alpha1.ClusterImport{}
	if err := c.client.Get(ctx, r.NamespacedName, imp); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !imp.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, c.finalize(ctx, imp)
	}
	if _, err := patch.Object(ctx, c.client, imp, func() bool {
		return controllerutil.AddFinalizer(imp, muster.ImportFinalizer)
	}); err != nil {
		return reconcile.Result{}, err
	}
	j := &job{imp: imp, status: imp.Status.DeepCopy()}
	attempt, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	result, failed := c.bring(attempt, j)
	if err := c.settle(ctx, j); err != nil {
		return reconcile.Result{}, err
	}
	return result, failed
}

// settle writes down how far an import is, and then forgets a kubeconfig that is not
// needed any more. What was done with it is on record before it goes, so that a hub that
// is killed in between never asks for it again.
func (c *Controller) settle(ctx context.Context, j *job) error {
	if err := c.report(ctx, j); err != nil || !j.done {
		return err
	}
	if changed, err := c.hasChanged(ctx, j.imp); changed || err != nil {
		return err // the cache is about to show it, and that change needs the kubeconfig, too
	}
	if err := c.forget(ctx, j.imp, j.secret); err != nil {
		return err
	}
	return errors.Join(c.withoutKubeconfig(ctx, j), c.report(ctx, j))
}

// report writes the status.
func (c *Controller) report(ctx context.Context, j *job) error {
	_, err := patch.Status(ctx, c.client, j.imp, func() bool {
		changed := !equality.Semantic.DeepEqual(j.imp.Status, *j.status)
		j.status.DeepCopyInto(&j.imp.Status)
		return changed
	})
	return err
}

// finalize ends an import. The agent stays in its cluster, and the ManagedCluster on
// the hub: deleting that is what makes the cluster leave. The token goes, and so does a
// kubeconfig that was only handed in for the import.
func (c *Controller) finalize(ctx context.Context, imp *v1alpha1.ClusterImport) error {
	if changed, err := c.hasChanged(ctx, imp); changed || err != nil {
		return err // the cache is about to show it
	}
	if err := c.revoke(ctx, imp); err != nil {
		return err
	}
	if forgets(imp) {
		secret, err := c.kubeconfigSecret(ctx, imp)
		if err != nil {
			return err
		}
		if secret != nil {
			if err := c.forget(ctx, imp, secret); err != nil {
				return err
			}
		}
	}
	_, err := patch.Object(ctx, c.client, imp, func() bool {
		return controllerutil.RemoveFinalizer(imp, muster.ImportFinalizer)
	})
	return err
}

func forgets(imp *v1alpha1.ClusterImport) bool { return ptr.Deref(imp.Spec.ForgetAfterJoin, true) }

// kubeconfigSecret is the Secret with the kubeconfig; nil when there is none.
func (c *Controller) kubeconfigSecret(ctx context.Context, imp *v1alpha1.ClusterImport) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: muster.ImportNamespace, Name: imp.Spec.KubeconfigSecret}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the Secret %s/%s: %w", muster.ImportNamespace, imp.Spec.KubeconfigSecret, err)
	case !secret.DeletionTimestamp.IsZero():
		return nil, nil
	}
	return secret, nil
}

// hasChanged reports whether somebody has changed or replaced the import since it was
// read from the cache. Who does that and hands in a kubeconfig for it writes the one
// right after the other, and the kubeconfig must not be taken for the former one.
func (c *Controller) hasChanged(ctx context.Context, imp *v1alpha1.ClusterImport) (bool, error) {
	now := &v1alpha1.ClusterImport{}
	err := c.live.Get(ctx, client.ObjectKeyFromObject(imp), now)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read the ClusterImport %s: %w", imp.Name, err)
	}
	return now.UID != imp.UID || now.Generation != imp.Generation, nil
}

// forget deletes a kubeconfig, unless somebody has put another one there since it was
// read.
func (c *Controller) forget(ctx context.Context, imp *v1alpha1.ClusterImport, secret *corev1.Secret) error {
	as := client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}
	err := c.client.Delete(ctx, secret, as)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	c.record(imp, corev1.EventTypeNormal, "KubeconfigForgotten", "the Secret %s/%s is deleted", secret.Namespace, secret.Name)
	return nil
}

// record leaves an event.
func (c *Controller) record(imp *v1alpha1.ClusterImport, kind, reason, format string, args ...any) {
	c.events.Eventf(imp, nil, kind, reason, "Import", format, args...)
}

// set sets a condition, and leaves an event when its reason is new.
func (c *Controller) set(j *job, condition string, is metav1.ConditionStatus, reason, message string) {
	before := meta.FindStatusCondition(j.status.Conditions, condition)
	if before == nil || before.Reason != reason {
		kind := corev1.EventTypeNormal
		if is == metav1.ConditionFalse && condition != muster.ConditionDrifted && condition != muster.ConditionJoined {
			kind = corev1.EventTypeWarning
		}
		c.record(j.imp, kind, reason, "%s is %s: %s", condition, is, message)
	}
	meta.SetStatusCondition(&j.status.Conditions, metav1.Condition{
		Type: condition, Status: is, Reason: reason, Message: message,
		ObservedGeneration: j.imp.Generation, LastTransitionTime: metav1.NewTime(c.clock.Now()),
	})
}

// clusterChanged reports whether an import has to look at a change of its cluster.
func clusterChanged(was, is *clusterv1.ManagedCluster) bool {
	return was.Spec.AcceptsClient() != is.Spec.AcceptsClient() || isJoined(was) != isJoined(is) ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()
}

func isJoined(mc *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionJoined)
}

// isKubeconfig reports whether a Secret may be an import's.
func isKubeconfig(secret *corev1.Secret) bool { return secret.Namespace == muster.ImportNamespace }

// importsOfSecret are the imports that name a Secret.
func (c *Controller) importsOfSecret(ctx context.Context, o client.Object) []reconcile.Request {
	return watch.Matching(ctx, c.client, &v1alpha1.ClusterImportList{}, func(imp *v1alpha1.ClusterImport) bool {
		return imp.Spec.KubeconfigSecret == o.GetName()
	})
}

// backoff is the pause after a failed attempt: it doubles, and is up to a quarter
// longer by chance, so that clusters that failed together are not tried together.
type backoff struct {
	workqueue.TypedRateLimiter[reconcile.Request]
}

func newBackoff(first, last time.Duration) backoff {
	return backoff{workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, last)}
}

// When implements workqueue.TypedRateLimiter.
func (b backoff) When(r reconcile.Request) time.Duration {
	pause := b.TypedRateLimiter.When(r)
	return pause + rand.N(pause/4+1)
}
