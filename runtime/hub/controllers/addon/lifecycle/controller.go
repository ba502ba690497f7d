// Package lifecycle notes on ClusterManagementAddOns that say they manage themselves,
// and are made from a template, that it is the hub who is their manager.
package lifecycle

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Controller reconciles the lifecycle annotations of ClusterManagementAddOns.
type Controller struct {
	client client.Client
}

// NewController makes the controller.
func NewController(c client.Client) *Controller { return &Controller{client: c} }

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("addon-lifecycle").
		For(&v1alpha1.ClusterManagementAddOn{}, builder.WithPredicates(watch.When(concerned))).
		Complete(patch.RetryConflicts(c))
}

// concerned selects add-ons from templates whose annotation says "self".
func concerned(a *v1alpha1.ClusterManagementAddOn) bool {
	return a.Annotations[addon.LifecycleAnnotation] == addon.LifecycleSelf && configs.FromTemplate(a)
}

// Reconcile empties the annotation, as upstream's managers do for the add-ons that
// they run. Nothing sets another value after that: until somebody removes the
// annotation, the hub neither installs nor configures the add-on.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	a, err := addons.Definition(ctx, c.client, r.Name)
	if err != nil || a == nil || !concerned(a) {
		return reconcile.Result{}, err
	}
	a = a.DeepCopy()
	if _, err := patch.Object(ctx, c.client, a, func() bool {
		a.Annotations[addon.LifecycleAnnotation] = ""
		return true
	}); err != nil {
		return reconcile.Result{}, fmt.Errorf("note who manages the add-on %s: %w", a.Name, err)
	}
	return reconcile.Result{}, nil
}
