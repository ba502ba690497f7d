// Package clocksync compares the clocks of agents with the hub's.
package clocksync

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Controller reconciles the clock condition of ManagedClusters.
type Controller struct {
	client client.Client
	clock  clock.PassiveClock
}

// NewController makes the controller.
func NewController(c client.Client, clk clock.PassiveClock) *Controller {
	return &Controller{client: c, clock: clk}
}

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("clocksync").
		Watches(&coordinationv1.Lease{}, watch.ClusterOfNamespace(),
			builder.WithPredicates(watch.Only(watch.Updated), watch.Changed(renewed))).
		Complete(patch.RetryConflicts(c))
}

func renewed(was, is *coordinationv1.Lease) bool {
	return is.Name == cluster.LeaseName && is.Spec.RenewTime != nil && !is.Spec.RenewTime.Equal(was.Spec.RenewTime)
}

// Reconcile judges a cluster's clock by the renewal that has just arrived.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, r.NamespacedName, mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	lease := &coordinationv1.Lease{}
	if err := c.client.Get(ctx, types.NamespacedName{Namespace: mc.Name, Name: cluster.LeaseName}, lease); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	skip := mc.Annotations[cluster.SkipClockSyncAnnotation] == "true"
	verdict := condition(skip, lease.Spec.RenewTime, mc.Spec.LeaseGrace(), c.clock.Now())
	_, err := patch.Status(ctx, c.client, mc, func() bool { return meta.SetStatusCondition(&mc.Status.Conditions, verdict) })
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("report the clock of the cluster %s: %w", mc.Name, err)
	}
	return reconcile.Result{}, nil
}

// condition is what a renewal at the time renewed, seen now, says about the
// agent's clock, which may differ by less than tolerance.
func condition(skip bool, renewed *metav1.MicroTime, tolerance time.Duration, now time.Time) metav1.Condition {
	if skip || renewed != nil && now.Sub(renewed.Time).Abs() < tolerance {
		return metav1.Condition{
			Type: cluster.ConditionClockSynced, Status: metav1.ConditionTrue,
			Reason: cluster.ReasonClockSynced, Message: cluster.MessageClockSynced,
		}
	}
	return metav1.Condition{
		Type: cluster.ConditionClockSynced, Status: metav1.ConditionFalse,
		Reason: cluster.ReasonClockOutOfSync, Message: cluster.MessageClockOutOfSync,
	}
}
