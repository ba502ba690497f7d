// Package install keeps a ManagedClusterAddOn in each cluster that the placements of
// an add-on select, and in no other one. Add-ons with the strategy Manual, and those
// that manage themselves, are left to others.
package install

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Controller reconciles ClusterManagementAddOns.
type Controller struct {
	client     client.Client
	selections *addons.Selections
}

// NewController makes the controller.
func NewController(c client.Client, rule selection.Rule) *Controller {
	return &Controller{client: c, selections: addons.NewSelections(c, rule)}
}

// Register adds the controller to a manager. Its cache needs addons.Index.
func (c *Controller) Register(m manager.Manager) error {
	b := builder.ControllerManagedBy(m).
		Named("addon-management").
		For(&v1alpha1.ClusterManagementAddOn{}, builder.WithPredicates(watch.Changed(definitionChanged))).
		// One that a user deletes comes back; one that a user makes where none belongs goes.
		Watches(&v1alpha1.ManagedClusterAddOn{}, watch.Named(), builder.WithPredicates(watch.Only(watch.Created, watch.Deleted)))
	return c.selections.Watch(b).Complete(patch.RetryConflicts(c))
}

// definitionChanged selects changes of where an add-on is to be, and of who sees to
// it.
func definitionChanged(was, is *v1alpha1.ClusterManagementAddOn) bool {
	return was.Generation != is.Generation || configs.SelfManaged(was) != configs.SelfManaged(is)
}

// Reconcile installs and removes one add-on.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	a, err := addons.Definition(ctx, c.client, r.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if a == nil || !a.DeletionTimestamp.IsZero() || configs.SelfManaged(a) || a.Spec.InstallStrategy.Type != v1alpha1.InstallStrategyPlacements {
		c.selections.Forget(r.Name)
		return reconcile.Result{}, nil
	}
	placed, err := c.selections.Of(ctx, a)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("find the clusters of the add-on %s: %w", a.Name, err)
	}
	have, err := addons.InClusters(ctx, c.client, a.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	p := decide(placed, have)
	removed := apply.Parallel(len(p.remove), func(i int) error { return c.remove(ctx, p.remove[i]) })
	added := apply.Parallel(len(p.add), func(i int) error { return c.add(ctx, a, p.add[i]) })
	if len(p.add)+len(p.remove) > 0 {
		log.FromContext(ctx).V(1).Info("an add-on follows its placements", "addon", a.Name, "added", len(p.add), "removed", len(p.remove))
	}
	return reconcile.Result{}, errors.Join(removed, added)
}

// add makes the add-on of a cluster, which gets what the cluster's annotations say
// to add-ons.
func (c *Controller) add(ctx context.Context, a *v1alpha1.ClusterManagementAddOn, cluster string) error {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: cluster}, mc); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // it went a moment ago, and its placements will change
		}
		return fmt.Errorf("read the cluster %s: %w", cluster, err)
	}
	err := c.client.Create(ctx, &v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster, Name: a.Name, Annotations: addons.Annotations(mc.Annotations), OwnerReferences: []metav1.OwnerReference{addons.OwnerReference(a)},
	}})
	switch {
	case apierrors.IsAlreadyExists(err): // an event that shows it follows
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // the cluster goes
	case err != nil:
		return fmt.Errorf("install the add-on %s in the cluster %s: %w", a.Name, cluster, err)
	}
	return nil
}

func (c *Controller) remove(ctx context.Context, a *v1alpha1.ManagedClusterAddOn) error {
	gone := &v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
	err := c.client.Delete(ctx, gone, client.Preconditions{UID: &a.UID})
	// A conflict means that the add-on of that name is another one by now.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove the add-on %s from the cluster %s: %w", a.Name, a.Namespace, err)
	}
	return nil
}
