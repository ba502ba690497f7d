package work

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// finalizeWork lets a deleted work go once its AppliedManifestWork is gone, and
// with that its objects.
func (a *agent) finalizeWork(ctx context.Context, mw *workv1.ManifestWork) error {
	if !controllerutil.ContainsFinalizer(mw, apiwork.ManifestWorkFinalizer) {
		return nil
	}
	amw := &workv1.AppliedManifestWork{}
	err := a.local.Get(ctx, types.NamespacedName{Name: apiwork.AppliedManifestWorkName(a.hubHash, mw.Name)}, amw)
	switch {
	case apierrors.IsNotFound(err):
		before := mw.DeepCopy()
		controllerutil.RemoveFinalizer(mw, apiwork.ManifestWorkFinalizer)
		if err := a.hub.Patch(ctx, mw, changesSince(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the finalizer from the work %s: %w", mw.Name, err)
		}
		a.Forget(mw.Name)
		return nil
	case err != nil:
		return err
	}
	if err := a.reportDeletion(ctx, mw, amw.Name); client.IgnoreNotFound(err) != nil {
		return err
	}
	// An agent that was installed again has another ID: no other would finish this.
	if amw.Spec.AgentID != a.agentID {
		before := amw.DeepCopy()
		amw.Spec.AgentID = a.agentID
		if err := a.local.Patch(ctx, amw, changesSince(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("take over the AppliedManifestWork %s: %w", amw.Name, err)
		}
	}
	if amw.DeletionTimestamp.IsZero() {
		if err := a.local.Delete(ctx, amw, client.Preconditions{UID: &amw.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the AppliedManifestWork %s: %w", amw.Name, err)
		}
	}
	// Objects on their way out wake this work; it wakes the applied one.
	a.watches.Set(mw.Name, decide.Watched(nil, nil, amw.Status.AppliedResources))
	a.applied.add(amw.Name)
	return nil // the end of the AppliedManifestWork queues this work again
}

// reportDeletion says that a work is being deleted and, once that is known, what
// it waits for.
func (a *agent) reportDeletion(ctx context.Context, mw *workv1.ManifestWork, applied string) error {
	held, known := a.memory.Remaining(applied)
	if !known && meta.IsStatusConditionTrue(mw.Status.Conditions, apiwork.ConditionDeleting) {
		return nil // said before a restart
	}
	status := *mw.Status.DeepCopy()
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: apiwork.ConditionDeleting, Status: metav1.ConditionTrue, Reason: apiwork.ReasonDeleting, ObservedGeneration: mw.Generation,
		Message: report.DeletingMessage(a.readable(ctx, mw.Spec.Executor, held)),
	})
	return a.report(ctx, mw, status)
}

// Forget removes what is remembered of a work.
func (a *agent) Forget(name string) {
	a.memory.Forget(name, apiwork.AppliedManifestWorkName(a.hubHash, name))
	a.freshness.Forget(name)
	a.watches.Set(name, nil)
	a.events.Forget(name)
	a.metrics.Forget(name)
}
