package work

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// pass is one pass over a work. It goes through the stages read, decide, apply and
// report; each of them adds what the next ones need.
type pass struct {
	work *workv1.ManifestWork

	// Of the stage read: what is remembered of the work, its AppliedManifestWork, nil
	// until there is one, and all that is known when the plan is made.
	last    decide.Snapshot
	applied *workv1.AppliedManifestWork
	known   decide.Input

	// Of the stage decide.
	plan decide.Plan

	// Of the stage apply: what became of each manifest, which of the objects that the
	// work no longer holds are still there, and what went wrong beside the manifests.
	results []decide.Result
	pending []report.Remainder
	err     error
}

// reconcileWork brings the managed cluster in line with one work, and reports.
func (a *agent) reconcileWork(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mw, err := a.get(ctx, r.Name)
	switch {
	case apierrors.IsNotFound(err):
		// Its objects stay for the time being: eviction decides about them.
		a.forget(r.Name)
		return reconcile.Result{}, nil
	case errors.Is(err, errOutdated):
		return reconcile.Result{RequeueAfter: engine.CopyTimeout}, nil
	case err != nil:
		return reconcile.Result{}, err
	case !mw.DeletionTimestamp.IsZero():
		return reconcile.Result{}, a.finalizeWork(ctx, mw)
	}
	p, err := a.read(ctx, mw)
	if err != nil {
		return reconcile.Result{}, err
	}
	p.plan = decide.Work(p.known)
	if err := a.apply(ctx, p); err != nil {
		return reconcile.Result{}, err
	}
	return a.report(ctx, p)
}
