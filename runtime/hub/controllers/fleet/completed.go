// Package fleet has the controllers of complete works and of previews, and below it those
// of cluster sets, cluster profiles, placements and replica sets.
package fleet

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Completed reconciles complete ManifestWorks.
type Completed struct {
	client client.Client
	clock  clock.PassiveClock
}

// NewCompleted makes the controller.
func NewCompleted(c client.Client, clock clock.PassiveClock) *Completed {
	return &Completed{client: c, clock: clock}
}

// Register adds the controller to a manager.
func (c *Completed) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("completed-work").
		For(&workv1.ManifestWork{}, builder.WithPredicates(watch.When(temporary))).
		Complete(patch.RetryConflicts(c))
}

// temporary selects works that are to be deleted at some time.
func temporary(mw *workv1.ManifestWork) bool {
	_, has := due(mw)
	return has
}

// Reconcile deletes a work whose time is over, or comes back when it is.
func (c *Completed) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mw := &workv1.ManifestWork{}
	if err := c.client.Get(ctx, r.NamespacedName, mw); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	when, has := due(mw)
	if !has {
		return reconcile.Result{}, nil
	}
	if left := when.Sub(c.clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	// Only as it is known here: it may have been given other work meanwhile.
	if err := c.client.Delete(ctx, mw, client.Preconditions{UID: &mw.UID, ResourceVersion: &mw.ResourceVersion}); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("delete the complete work %s: %w", r.NamespacedName, err)
	}
	log.FromContext(ctx).Info("deleted a complete work", "work", r.NamespacedName)
	return reconcile.Result{}, nil
}

// due is when a work is to be deleted for being complete. has is false for works
// that are not complete, that stay anyway, or that a replica set looks after.
func due(mw *workv1.ManifestWork) (when time.Time, has bool) {
	if !mw.DeletionTimestamp.IsZero() || mw.Spec.DeleteOption == nil || mw.Spec.DeleteOption.TTLSecondsAfterFinished == nil {
		return time.Time{}, false
	}
	if _, replica := mw.Labels[work.ReplicaSetLabel]; replica {
		return time.Time{}, false
	}
	c := meta.FindStatusCondition(mw.Status.Conditions, work.ConditionComplete)
	if c == nil || c.Status != metav1.ConditionTrue {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Add(time.Duration(*mw.Spec.DeleteOption.TTLSecondsAfterFinished) * time.Second), true
}
