// Package owner has every ManagedClusterAddOn belong to its ClusterManagementAddOn,
// so that it is deleted with it. The managers of add-ons wait for this.
package owner

import (
	"context"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Controller reconciles the owners of ManagedClusterAddOns.
type Controller struct {
	client client.Client
}

// NewController makes the controller.
func NewController(c client.Client) *Controller { return &Controller{client: c} }

// Register adds the controller to a manager. Its cache needs addons.Index.
func (c *Controller) Register(m manager.Manager) error {
	appears := watch.Only(watch.Created, watch.Updated)
	return builder.ControllerManagedBy(m).
		Named("addon-owner").
		For(&v1alpha1.ManagedClusterAddOn{}, builder.WithPredicates(appears, watch.Changed(ownersChanged))).
		Watches(&v1alpha1.ClusterManagementAddOn{}, handler.EnqueueRequestsFromMapFunc(c.ofDefinition),
			builder.WithPredicates(appears, watch.Changed(managerChanged))).
		Complete(patch.RetryConflicts(c))
}

func ownersChanged(was, is *v1alpha1.ManagedClusterAddOn) bool {
	return !apiequality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences)
}

func managerChanged(was, is *v1alpha1.ClusterManagementAddOn) bool {
	return was.UID != is.UID || configs.SelfManaged(was) != configs.SelfManaged(is)
}

func (c *Controller) ofDefinition(ctx context.Context, o client.Object) []reconcile.Request {
	return addons.RequestsInClusters(ctx, c.client, o.GetName())
}

// Reconcile gives one ManagedClusterAddOn its owner.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	a := &v1alpha1.ManagedClusterAddOn{}
	if err := c.client.Get(ctx, r.NamespacedName, a); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !a.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	definition, err := addons.Definition(ctx, c.client, a.Name)
	if err != nil || definition == nil || !definition.DeletionTimestamp.IsZero() || configs.SelfManaged(definition) {
		return reconcile.Result{}, err
	}
	_, err = patch.Object(ctx, c.client, a, func() bool {
		want := owners(a.OwnerReferences, addons.OwnerReference(definition))
		changed := !apiequality.Semantic.DeepEqual(a.OwnerReferences, want)
		a.OwnerReferences = want
		return changed
	})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("make the add-on %s of the cluster %s belong to its ClusterManagementAddOn: %w", a.Name, a.Namespace, err)
	}
	return reconcile.Result{}, nil
}

// owners adds an owner to others. One of the same group, kind and name is replaced:
// it may be of another version, or of an object that is gone. An object has one
// controlling owner at most, so where another one controls it, ours does not: the
// API would refuse a second one, as upstream finds out again and again.
func owners(have []metav1.OwnerReference, want metav1.OwnerReference) []metav1.OwnerReference {
	at := -1
	for i, o := range have {
		same := o.Kind == want.Kind && o.Name == want.Name && group(o) == group(want)
		switch {
		case same:
			at = i
		case ptr.Deref(o.Controller, false):
			want.Controller = nil
		}
	}
	out := slices.Clone(have)
	if at < 0 {
		return append(out, want)
	}
	out[at] = want
	return out
}

func group(o metav1.OwnerReference) string {
	return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group
}
