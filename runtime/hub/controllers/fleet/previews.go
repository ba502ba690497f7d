package fleet

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Previews deletes WorkPreviews some minutes after they were created. Their metadata is
// all that it holds in memory.
type Previews struct {
	client client.Client
	clock  clock.PassiveClock
}

// NewPreviews makes the controller.
func NewPreviews(c client.Client, clock clock.PassiveClock) *Previews {
	return &Previews{client: c, clock: clock}
}

// Register adds the controller to a manager.
func (c *Previews) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("work-preview").
		For(preview(), builder.WithPredicates(watch.Only(watch.Created))).
		Complete(patch.RetryConflicts(c))
}

// preview is the metadata of a WorkPreview.
func preview() *metav1.PartialObjectMetadata {
	p := &metav1.PartialObjectMetadata{}
	p.SetGroupVersionKind(musterv1alpha1.GroupVersion.WithKind("WorkPreview"))
	return p
}

// Reconcile deletes a preview whose time is over, or comes back when it is.
func (c *Previews) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	p := preview()
	if err := c.client.Get(ctx, r.NamespacedName, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if left := p.CreationTimestamp.Add(muster.PreviewLifetime).Sub(c.clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if err := c.client.Delete(ctx, p, client.Preconditions{UID: &p.UID}); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("delete the preview %s: %w", r.NamespacedName, err)
	}
	return reconcile.Result{}, nil
}
