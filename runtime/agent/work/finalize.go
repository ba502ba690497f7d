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

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/watches"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
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
		if _, err := patch.Object(ctx, a.hub, mw, func() bool {
			return controllerutil.RemoveFinalizer(mw, apiwork.ManifestWorkFinalizer)
		}); err != nil {
			return fmt.Errorf("remove the finalizer from the work %s: %w", mw.Name, err)
		}
		a.forget(mw.Name)
		return nil
	case err != nil:
		return err
	}
	if err := a.reportDeletion(ctx, mw, amw.Name); err != nil {
		return err
	}
	// An agent that was installed again has another ID: no other would finish this.
	if _, err := patch.Object(ctx, a.local, amw, func() bool {
		other := amw.Spec.AgentID != a.agentID
		amw.Spec.AgentID = a.agentID
		return other
	}); err != nil {
		return fmt.Errorf("take over the AppliedManifestWork %s: %w", amw.Name, err)
	}
	if amw.DeletionTimestamp.IsZero() {
		if err := a.local.Delete(ctx, amw, client.Preconditions{UID: &amw.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the AppliedManifestWork %s: %w", amw.Name, err)
		}
	}
	// Objects whose deletion is pending queue this work when they change, and it
	// queues its AppliedManifestWork.
	a.watches.Set(mw.Name, watches.Concerning(nil, nil, amw.Status.AppliedResources))
	a.applied.Add(amw.Name)
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
		Type: apiwork.ConditionDeleting, Status: metav1.ConditionTrue, Reason: apiwork.ReasonDeleting,
		ObservedGeneration: mw.Generation,
		Message:            report.DeletingMessage(a.readable(ctx, mw.Spec.Executor, held)),
	})
	return a.writeStatus(ctx, mw, status)
}

// forget removes what is remembered of a work.
func (a *agent) forget(name string) {
	a.memory.Forget(name, apiwork.AppliedManifestWorkName(a.hubHash, name))
	a.written.Forget(a.workKey(name))
	a.watches.Set(name, nil)
	a.events.forget(name)
	a.metrics.set(name, "")
}
