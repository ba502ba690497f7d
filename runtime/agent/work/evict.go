package work

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

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
	if len(pending) > 0 && a.memory.SetRemainders(name, pending) && strings.HasPrefix(name, a.hubHash+"-") {
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
