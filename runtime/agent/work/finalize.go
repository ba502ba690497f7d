package work

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
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

// reportDeletion says that a work is being deleted, and what it waits for. Most deletions end
// before there is anything to wait for, and need no report.
func (a *agent) reportDeletion(ctx context.Context, mw *workv1.ManifestWork, applied string) error {
	held, known := a.memory.Remaining(applied)
	if !known {
		return nil
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

// reconcileApplied deletes the objects of a deleted AppliedManifestWork, and
// evicts one whose work the hub no longer has.
func (a *agent) reconcileApplied(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	name := r.Name
	amw := &workv1.AppliedManifestWork{}
	if err := a.local.Get(ctx, types.NamespacedName{Name: name}, amw); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if amw.Spec.AgentID != a.agentID {
		return reconcile.Result{}, nil // another agent's
	}
	if amw.DeletionTimestamp.IsZero() {
		return a.evict(ctx, amw)
	}
	if !controllerutil.ContainsFinalizer(amw, apiwork.AppliedManifestWorkFinalizer) {
		return reconcile.Result{}, nil
	}
	pending, err := a.removeAll(ctx, amw, amw.Status.AppliedResources)
	waits := len(pending) > 0 || err != nil
	if waits && a.memory.SetRemainders(name, append([]report.Remainder{}, pending...)) &&
		strings.HasPrefix(name, a.hubHash+"-") {
		a.works.Add(amw.Spec.ManifestWorkName) // which reports it
	}
	left := make([]workv1.AppliedManifestResourceMeta, 0, len(pending))
	for _, r := range pending {
		left = append(left, r.Resource)
	}
	if err := errors.Join(err, a.writeApplied(ctx, amw, left)); err != nil {
		return reconcile.Result{}, err
	}
	if len(left) > 0 {
		return reconcile.Result{}, fmt.Errorf("%d objects of the work %s are still being deleted: %w",
			len(left), amw.Spec.ManifestWorkName, engine.ErrWaiting)
	}
	if _, err := patch.Object(ctx, a.local, amw, func() bool {
		return controllerutil.RemoveFinalizer(amw, apiwork.AppliedManifestWorkFinalizer)
	}); err != nil {
		return reconcile.Result{}, fmt.Errorf("remove the finalizer from the AppliedManifestWork %s: %w", amw.Name, err)
	}
	return reconcile.Result{}, nil
}

// evict deletes an AppliedManifestWork whose work the hub has not had for the
// grace period.
func (a *agent) evict(ctx context.Context, amw *workv1.AppliedManifestWork) (reconcile.Result, error) {
	managed, err := a.managed(ctx, amw)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := a.clock.Now()
	switch e := decide.Evict(managed, amw.Status.EvictionStartTime, a.evictionGracePeriod, now); {
	case e.Begin:
		a.log.Info("the hub no longer has this work, its objects go after the grace period",
			"work", amw.Spec.ManifestWorkName, "after", a.evictionGracePeriod)
		return reconcile.Result{RequeueAfter: e.After}, a.setEviction(ctx, amw, &metav1.Time{Time: now})
	case e.End:
		return reconcile.Result{}, a.setEviction(ctx, amw, nil)
	case e.Evict:
		if err := a.local.Delete(ctx, amw, client.Preconditions{UID: &amw.UID}); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("evict the AppliedManifestWork %s: %w", amw.Name, err)
		}
		return reconcile.Result{}, nil
	default:
		return reconcile.Result{RequeueAfter: e.After}, nil
	}
}

// managed reports whether the hub has the work of an AppliedManifestWork.
func (a *agent) managed(ctx context.Context, amw *workv1.AppliedManifestWork) (bool, error) {
	if !strings.HasPrefix(amw.Name, a.hubHash+"-") {
		return false, nil
	}
	err := a.hub.Get(ctx, a.workKey(amw.Spec.ManifestWorkName), &workv1.ManifestWork{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func (a *agent) setEviction(ctx context.Context, amw *workv1.AppliedManifestWork, start *metav1.Time) error {
	if _, err := patch.Status(ctx, a.local, amw, func() bool {
		amw.Status.EvictionStartTime = start
		return true
	}); err != nil {
		return fmt.Errorf("note the eviction of the AppliedManifestWork %s: %w", amw.Name, err)
	}
	return nil
}
