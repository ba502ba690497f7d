package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	// resync is how often a work is looked at when nothing happens, from this on
	// up to half as long again. The watches make it a safety net.
	resync = 4 * time.Minute
)

// reconcileWork brings the managed cluster in line with one work, and reports.
func (a *agent) reconcileWork(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	name := r.Name
	mw, err := a.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		// Its objects stay for the time being: eviction decides about them.
		a.Forget(name)
		return reconcile.Result{}, nil
	case errors.Is(err, errOutdated):
		return reconcile.Result{RequeueAfter: copyTimeout}, nil
	case err != nil:
		return reconcile.Result{}, err
	case !mw.DeletionTimestamp.IsZero():
		return reconcile.Result{}, a.finalizeWork(ctx, mw)
	}
	if !controllerutil.ContainsFinalizer(mw, apiwork.ManifestWorkFinalizer) {
		if err := a.addFinalizer(ctx, mw); err != nil {
			return reconcile.Result{}, err
		}
	}
	a.beginReplay(mw)
	manifests := manifest.Read(mw, a.mapper)
	wasSlow := a.memory.IsSlow(name)
	rules := a.inspector.Begin(wasSlow)
	defer func() {
		if slow := rules.End(); slow != wasSlow {
			a.memory.SetSlow(name, slow)
		}
	}()
	look := &look{work: mw, manifests: manifests, known: a.memory.Known(name), rules: rules}
	if decide.IsComplete(mw, manifests) {
		return a.watchOver(ctx, look)
	}
	amw, err := a.ensureApplied(ctx, mw)
	if apierrors.IsInvalid(err) {
		// A name that is too long, say: the work's author has to know.
		return reconcile.Result{}, errors.Join(err, a.report(ctx, mw, report.Refused(mw.Status, mw.Generation, err)))
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return a.applyWork(ctx, look, amw)
}

func (a *agent) addFinalizer(ctx context.Context, mw *workv1.ManifestWork) error {
	before := mw.DeepCopy()
	controllerutil.AddFinalizer(mw, apiwork.ManifestWorkFinalizer)
	if err := a.hub.Patch(ctx, mw, changesSince(before)); err != nil {
		return fmt.Errorf("add the finalizer to the work %s: %w", mw.Name, err)
	}
	a.freshness.Wrote(mw)
	return nil
}

// ensureApplied makes the AppliedManifestWork that owns a work's objects.
func (a *agent) ensureApplied(ctx context.Context, mw *workv1.ManifestWork) (*workv1.AppliedManifestWork, error) {
	amw := &workv1.AppliedManifestWork{}
	key := types.NamespacedName{Name: apiwork.AppliedManifestWorkName(a.hubHash, mw.Name)}
	want := workv1.AppliedManifestWorkSpec{HubHash: a.hubHash, ManifestWorkName: mw.Name, AgentID: a.agentID}
	err := a.local.Get(ctx, key, amw)
	switch {
	case apierrors.IsNotFound(err):
		amw = &workv1.AppliedManifestWork{
			ObjectMeta: metav1.ObjectMeta{Name: key.Name, Labels: mw.Labels, Finalizers: []string{apiwork.AppliedManifestWorkFinalizer}},
			Spec:       want,
		}
		if err := a.local.Create(ctx, amw); err != nil {
			return nil, fmt.Errorf("create the AppliedManifestWork of the work %s: %w", mw.Name, err)
		}
		return amw, nil
	case err != nil:
		return nil, err
	case !amw.DeletionTimestamp.IsZero():
		return nil, fmt.Errorf("the AppliedManifestWork %s is still being deleted: %w", amw.Name, errWaiting)
	case amw.Spec != want || !controllerutil.ContainsFinalizer(amw, apiwork.AppliedManifestWorkFinalizer):
		before := amw.DeepCopy()
		amw.Spec = want
		controllerutil.AddFinalizer(amw, apiwork.AppliedManifestWorkFinalizer)
		if err := a.local.Patch(ctx, amw, changesSince(before)); err != nil {
			return nil, fmt.Errorf("take over the AppliedManifestWork %s: %w", amw.Name, err)
		}
	}
	return amw, nil
}
