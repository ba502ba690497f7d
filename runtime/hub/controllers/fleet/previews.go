package fleet

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Previews announces to the agents of clusters, in their ManagedClusters, WorkPreviews that
// wait for them, and deletes these some minutes after they were created. The metadata of
// previews is all that it holds in memory.
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

// Reconcile announces a new preview to the agent, and comes back when its time is over, to
// delete it.
func (c *Previews) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	p := preview()
	if err := c.client.Get(ctx, r.NamespacedName, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if left := p.CreationTimestamp.Add(muster.PreviewLifetime).Sub(c.clock.Now()); left > 0 {
		if err := c.announce(ctx, p); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if err := c.client.Delete(ctx, p, client.Preconditions{UID: &p.UID}); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("delete the preview %s: %w", r.NamespacedName, err)
	}
	return reconcile.Result{}, nil
}

// announce notes in the cluster of a preview that it waits, unless a later one is noted.
func (c *Previews) announce(ctx context.Context, p *metav1.PartialObjectMetadata) error {
	version, err := strconv.ParseUint(p.ResourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("the preview %s/%s has the resource version %q: %w",
			p.Namespace, p.Name, p.ResourceVersion, err)
	}
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: p.Namespace}, mc); err != nil {
		return client.IgnoreNotFound(err)
	}
	_, err = patch.Object(ctx, c.client, mc, func() bool {
		noted, _ := strconv.ParseUint(mc.Annotations[muster.PreviewsAskedAnnotation], 10, 64)
		if noted >= version {
			return false
		}
		metav1.SetMetaDataAnnotation(&mc.ObjectMeta, muster.PreviewsAskedAnnotation, p.ResourceVersion)
		return true
	})
	return patch.Explain(err, "announce a preview to the agent of %s", p.Namespace)
}
