// Package binding reports whether the set of each binding exists.
package binding

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Controller reconciles the status of ManagedClusterSetBindings.
type Controller struct {
	client client.Client
}

// NewController makes the controller.
func NewController(c client.Client) *Controller { return &Controller{client: c} }

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	comesOrGoes := watch.Only(watch.Created, watch.Deleted)
	return builder.ControllerManagedBy(m).
		Named("clusterset-binding").
		// Changes of the status pass, too: a status that was found right in an
		// outdated copy is looked at once more when the copy is up to date.
		For(&clusterv1beta2.ManagedClusterSetBinding{}).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.bindingsOf),
			builder.WithPredicates(comesOrGoes)).
		Complete(patch.RetryConflicts(c))
}

func (c *Controller) bindingsOf(ctx context.Context, set client.Object) []reconcile.Request {
	ofSet := func(b *clusterv1beta2.ManagedClusterSetBinding) bool { return b.Spec.ClusterSet == set.GetName() }
	return watch.Matching(ctx, c.client, &clusterv1beta2.ManagedClusterSetBindingList{}, ofSet)
}

// Reconcile looks up the set of a binding.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	binding := &clusterv1beta2.ManagedClusterSetBinding{}
	if err := c.client.Get(ctx, r.NamespacedName, binding); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !binding.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	condition := metav1.Condition{Type: cluster.ConditionBound, Status: metav1.ConditionTrue, Reason: cluster.ReasonClusterSetBound}
	err := c.client.Get(ctx, types.NamespacedName{Name: binding.Spec.ClusterSet}, &clusterv1beta2.ManagedClusterSet{})
	switch {
	case apierrors.IsNotFound(err):
		condition.Status, condition.Reason = metav1.ConditionFalse, cluster.ReasonClusterSetNotFound
	case err != nil:
		return reconcile.Result{}, err
	}
	_, err = patch.Status(ctx, c.client, binding, func() bool { return meta.SetStatusCondition(&binding.Status.Conditions, condition) }, patch.SoleWriter())
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("report on the binding %s: %w", r.NamespacedName, err)
	}
	return reconcile.Result{}, nil
}
