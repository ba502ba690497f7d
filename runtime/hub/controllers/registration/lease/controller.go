// Package lease keeps the lease through which each cluster gives its sign of
// life, and declares a cluster's availability unknown when the signs stop.
package lease

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Controller reconciles the leases of ManagedClusters.
type Controller struct {
	client client.Client
	events events.EventRecorder
	clock  clock.PassiveClock
}

// NewController makes the controller.
func NewController(c client.Client, recorder events.EventRecorder, clk clock.PassiveClock) *Controller {
	return &Controller{client: c, events: recorder, clock: clk}
}

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("lease").
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		For(&clusterv1.ManagedCluster{}).
		Watches(&coordinationv1.Lease{}, watch.ClusterOfNamespace(), builder.WithPredicates(watch.When(ofCluster))).
		Complete(patch.RetryConflicts(c))
}

func ofCluster(l *coordinationv1.Lease) bool { return l.Name == cluster.LeaseName }

// Reconcile makes the lease of a cluster that was accepted at some time, and
// looks again exactly when it would expire. It never declares a cluster
// available: that is the agent's.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, r.NamespacedName, mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !hasNamespace(mc) {
		return reconcile.Result{}, nil
	}
	lease := &coordinationv1.Lease{}
	err := c.client.Get(ctx, types.NamespacedName{Namespace: mc.Name, Name: cluster.LeaseName}, lease)
	switch {
	case apierrors.IsNotFound(err) && !mc.DeletionTimestamp.IsZero():
		return reconcile.Result{}, c.declareUnknown(ctx, mc)
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, c.create(ctx, mc.Name)
	case err != nil:
		return reconcile.Result{}, err
	}
	left := remaining(lease, mc.Spec.LeaseGrace(), c.clock.Now())
	if left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return reconcile.Result{RequeueAfter: mc.Spec.LeaseGrace()}, c.declareUnknown(ctx, mc)
}

// hasNamespace reports whether the cluster was accepted at some time, so that its
// namespace is its own.
func hasNamespace(mc *clusterv1.ManagedCluster) bool {
	accepted := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionHubAccepted)
	if accepted == nil || cluster.IsReserved(mc.Name) {
		return false
	}
	// A cluster that could not be given its rights may be none whose namespace
	// is its own.
	return accepted.Status != metav1.ConditionFalse || accepted.Reason != cluster.ReasonError
}

// remaining is how long the lease stays good without a renewal, for which there
// is time for as long as grace.
func remaining(l *coordinationv1.Lease, grace time.Duration, now time.Time) time.Duration {
	if l.Spec.RenewTime == nil {
		return 0
	}
	return l.Spec.RenewTime.Add(grace).Sub(now)
}

func (c *Controller) create(ctx context.Context, name string) error {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: cluster.LeaseName, Labels: map[string]string{cluster.NameLabel: name}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(cluster.LeaseName),
			RenewTime:      &metav1.MicroTime{Time: c.clock.Now()},
		},
	}
	err := c.client.Create(ctx, lease)
	if apierrors.IsAlreadyExists(err) {
		return c.adopt(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("create the lease of the cluster %s: %w", name, err)
	}
	return nil
}

// adopt labels a lease that the cache does not show for want of a label, such as
// one that was restored from a backup without it. Without the label nobody would
// ever notice that the cluster has fallen silent.
func (c *Controller) adopt(ctx context.Context, name string) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: cluster.LeaseName}}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, cluster.NameLabel, name)
	if err := c.client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("label the lease of the cluster %s: %w", name, err)
	}
	return nil
}

func (c *Controller) declareUnknown(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if have := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable); have != nil && have.Status == metav1.ConditionUnknown {
		return nil
	}
	written, err := patch.Status(ctx, c.client, mc, func() bool {
		return meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{
			Type: cluster.ConditionAvailable, Status: metav1.ConditionUnknown,
			Reason: cluster.ReasonLeaseUpdateStopped, Message: cluster.MessageLeaseUpdateStopped,
		})
	})
	if err != nil {
		return fmt.Errorf("declare the cluster %s unknown: %w", mc.Name, err)
	}
	if !written {
		return nil
	}
	regarding := mc.DeepCopy()
	regarding.Namespace = mc.Name // where those look who have access to the cluster's namespace only
	c.events.Eventf(regarding, nil, corev1.EventTypeWarning, "AvailableUnknown", "AvailableUnknown",
		"The %s is successfully imported. However, the connection check from the managed cluster to the hub cluster has failed", mc.Name)
	return nil
}
