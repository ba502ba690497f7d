// Package health declares the add-ons of a cluster that has fallen silent
// unknown, as nobody can know how they are.
package health

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Controller reconciles the add-ons of silent clusters.
type Controller struct {
	client client.Client
}

// NewController makes the controller.
func NewController(c client.Client) *Controller { return &Controller{client: c} }

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	appears := watch.Only(watch.Created, watch.Updated)
	return builder.ControllerManagedBy(m).
		Named("addon-health").
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(watch.When(silent))).
		Watches(&addonv1alpha1.ManagedClusterAddOn{}, watch.ClusterOfNamespace(), builder.WithPredicates(appears)).
		Complete(patch.RetryConflicts(c))
}

func silent(mc *clusterv1.ManagedCluster) bool { return unknown(mc) != nil }

// Reconcile gives every add-on of a cluster whose availability is unknown the
// cluster's own condition. Once the cluster is heard of again, its add-ons'
// agents report as before.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, r.NamespacedName, mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	condition := unknown(mc)
	if condition == nil || cluster.IsReserved(mc.Name) {
		return reconcile.Result{}, nil
	}
	addOns := &addonv1alpha1.ManagedClusterAddOnList{}
	if err := c.client.List(ctx, addOns, client.InNamespace(mc.Name)); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the add-ons of the cluster %s: %w", mc.Name, err)
	}
	var problems []error
	for i := range addOns.Items {
		problems = append(problems, c.declare(ctx, &addOns.Items[i], *condition))
	}
	return reconcile.Result{}, errors.Join(problems...)
}

// unknown is the condition of a cluster that has fallen silent, nil for others.
func unknown(mc *clusterv1.ManagedCluster) *metav1.Condition {
	have := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable)
	if have == nil || have.Status != metav1.ConditionUnknown {
		return nil
	}
	return have
}

func (c *Controller) declare(ctx context.Context, a *addonv1alpha1.ManagedClusterAddOn, silent metav1.Condition) error {
	_, err := patch.Status(ctx, c.client, a, func() bool {
		return meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{
			Type: addon.ConditionAvailable, Status: silent.Status, Reason: silent.Reason, Message: silent.Message,
		})
	})
	if err != nil {
		return fmt.Errorf("declare the add-on %s of the cluster %s unknown: %w", a.Name, a.Namespace, err)
	}
	return nil
}
