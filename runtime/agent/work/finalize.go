package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// evictionNever is the grace period from which on nothing is evicted.
const evictionNever = 100 * 365 * 24 * time.Hour

// finalizeWork lets a deleted work go once its AppliedManifestWork is gone, and
// with that its objects.
func (a *agent) finalizeWork(ctx context.Context, mw *workv1.ManifestWork) error {
	if !controllerutil.ContainsFinalizer(mw, work.ManifestWorkFinalizer) {
		return nil
	}
	amw := &workv1.AppliedManifestWork{}
	err := a.local.Get(ctx, types.NamespacedName{Name: work.AppliedManifestWorkName(a.hubHash, mw.Name)}, amw)
	switch {
	case apierrors.IsNotFound(err):
		before := mw.DeepCopy()
		controllerutil.RemoveFinalizer(mw, work.ManifestWorkFinalizer)
		if err := a.hub.Patch(ctx, mw, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the finalizer from the work %s: %w", mw.Name, err)
		}
		a.forget(mw.Name)
		return nil
	case err != nil:
		return err
	}
	if err := a.reportDeletion(ctx, mw, amw.Name); client.IgnoreNotFound(err) != nil {
		return err
	}
	// An agent that was installed anew has another ID: nobody else would finish.
	if amw.Spec.AgentID != a.agentID {
		before := amw.DeepCopy()
		amw.Spec.AgentID = a.agentID
		if err := a.local.Patch(ctx, amw, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("take over the AppliedManifestWork %s: %w", amw.Name, err)
		}
	}
	if amw.DeletionTimestamp.IsZero() {
		if err := a.local.Delete(ctx, amw, client.Preconditions{UID: &amw.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the AppliedManifestWork %s: %w", amw.Name, err)
		}
	}
	// Objects on their way out wake this work; it wakes the applied one.
	a.watches.set(mw.Name, a.watched(mw, nil, amw))
	a.applied.add(amw.Name)
	return nil // the end of the AppliedManifestWork brings us here again
}

// reportDeletion says that a work is being deleted and, once that is known, what
// it waits for.
func (a *agent) reportDeletion(ctx context.Context, mw *workv1.ManifestWork, applied string) error {
	held, known := a.memory.held(applied)
	if !known && meta.IsStatusConditionTrue(mw.Status.Conditions, work.ConditionDeleting) {
		return nil // said before a restart
	}
	status := *mw.Status.DeepCopy()
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: work.ConditionDeleting, Status: metav1.ConditionTrue, Reason: work.ReasonDeleting, Message: deletingMessage(a.tellable(ctx, mw.Spec.Executor, held)), ObservedGeneration: mw.Generation,
	})
	return a.report(ctx, mw, status)
}

// forget lets go of what is remembered of a work.
func (a *agent) forget(name string) {
	a.memory.forget(name)
	a.freshness.forget(name)
	a.rooms.forget(name)
	a.memory.hold(work.AppliedManifestWorkName(a.hubHash, name), nil)
	a.watches.set(name, nil)
	a.events.forget(name)
	a.metrics.forget(name)
}

// reconcileApplied deletes the objects of a deleted AppliedManifestWork, and
// evicts one whose work the hub no longer has.
func (a *agent) reconcileApplied(ctx context.Context, name string) (time.Duration, error) {
	amw := &workv1.AppliedManifestWork{}
	if err := a.local.Get(ctx, types.NamespacedName{Name: name}, amw); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if amw.Spec.AgentID != a.agentID {
		return 0, nil // another agent's
	}
	if amw.DeletionTimestamp.IsZero() {
		return a.evict(ctx, amw)
	}
	if !controllerutil.ContainsFinalizer(amw, work.AppliedManifestWorkFinalizer) {
		return 0, nil
	}
	var left []workv1.AppliedManifestResourceMeta
	var held []remainder
	var problems []error
	for _, r := range amw.Status.AppliedResources {
		still, err := a.objects.remove(ctx, r, amw)
		if err != nil {
			problems = append(problems, fmt.Errorf("delete the %s: %w", nameOf(r), err))
		}
		if still != nil {
			left, held = append(left, r), append(held, *still)
		}
	}
	if len(held) > 0 && a.memory.hold(name, held) && strings.HasPrefix(name, a.hubHash+"-") {
		a.works.add(amw.Spec.ManifestWorkName) // which tells its author
	}
	if err := a.writeApplied(ctx, amw, left); client.IgnoreNotFound(err) != nil {
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return 0, err
	}
	if len(left) > 0 {
		return 0, fmt.Errorf("%d objects of the work %s are still being deleted: %w", len(left), amw.Spec.ManifestWorkName, errWaiting)
	}
	before := amw.DeepCopy()
	controllerutil.RemoveFinalizer(amw, work.AppliedManifestWorkFinalizer)
	if err := a.local.Patch(ctx, amw, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("remove the finalizer from the AppliedManifestWork %s: %w", amw.Name, err)
	}
	return 0, nil
}

// evict deletes an AppliedManifestWork whose work the hub has not had for the
// grace period.
func (a *agent) evict(ctx context.Context, amw *workv1.AppliedManifestWork) (time.Duration, error) {
	managed, err := a.managed(ctx, amw)
	if err != nil {
		return 0, err
	}
	start := amw.Status.EvictionStartTime
	if managed || a.evictionGracePeriod >= evictionNever {
		if start == nil {
			return 0, nil
		}
		return 0, a.setEviction(ctx, amw, nil)
	}
	now := a.clock.Now()
	if start == nil {
		slog.Info("the hub no longer has this work, its objects go after the grace period", "work", amw.Spec.ManifestWorkName, "after", a.evictionGracePeriod)
		return a.evictionGracePeriod, a.setEviction(ctx, amw, &metav1.Time{Time: now})
	}
	if left := start.Add(a.evictionGracePeriod).Sub(now); left > 0 {
		return left, nil
	}
	if err := a.local.Delete(ctx, amw, client.Preconditions{UID: &amw.UID}); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("evict the AppliedManifestWork %s: %w", amw.Name, err)
	}
	return 0, nil
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
	before := amw.DeepCopy()
	amw.Status.EvictionStartTime = start
	if err := a.local.Status().Patch(ctx, amw, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("note the eviction of the AppliedManifestWork %s: %w", amw.Name, err)
	}
	return nil
}
