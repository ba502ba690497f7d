package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// resync is how often a work gets a pass when nothing happens, from this on up to
// half as long again. The watches make it a safety net.
const resync = 4 * time.Minute

// report reports what a pass led to, and returns when the next one is due.
func (a *agent) report(ctx context.Context, p *pass) (reconcile.Result, error) {
	mw := p.work
	outcomes := make([]report.Outcome, len(p.results))
	for i, r := range p.results {
		outcomes[i] = r.Outcome(a.clock.Now())
		outcomes[i].Kept = p.plan.Complete
	}
	failed, again := failures(p), requeueAfter(jittered(resync), p.results)
	status := report.Status(mw, p.known.Manifests, outcomes, a.derive)
	if !p.plan.Complete {
		pending := p.pending
		if len(pending) > 0 {
			pending = a.readable(ctx, mw.Spec.Executor, pending)
		}
		report.SetPruned(&status.Conditions, pending, mw.Generation)
	}
	err := errors.Join(p.err, a.answer(ctx, mw, status))
	switch {
	case !p.plan.Complete:
		a.events.failing(mw, outcomes, a.works.Failures(mw.Name))
		if err = errors.Join(err, failed); err == nil && len(p.pending) > 0 {
			err = fmt.Errorf("objects are still being deleted: %w", engine.ErrWaiting)
		}
	case err == nil && !meta.IsStatusConditionTrue(mw.Status.Conditions, apiwork.ConditionComplete):
		a.works.Add(mw.Name) // its rules say something else now
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// failures are why a pass has to be repeated soon; nil when it need not be.
func failures(p *pass) error {
	var failed []error
	for i, r := range p.results {
		if r.Err != nil && !manifest.RetriedRarely(r.Err) {
			failed = append(failed, fmt.Errorf("manifest %d of the work %s: %w", i, p.work.Name, r.Err))
		}
	}
	return errors.Join(failed...)
}

// requeueAfter is when a work needs another pass although nothing changes, at the
// latest after resync.
func requeueAfter(resync time.Duration, results []decide.Result) time.Duration {
	again := resync
	for _, r := range results {
		for _, pause := range []time.Duration{r.Paused, r.Waits, r.PodsAgain} {
			if pause > 0 {
				again = min(again, pause)
			}
		}
		if r.Hidden || manifest.IsDenied(r.Err) {
			again = min(again, manifest.DeniedRetry)
		}
	}
	return again
}

// readable hides the remainders that the work's executor may not get. Only what a
// message names is asked about.
func (a *agent) readable(
	ctx context.Context, executor *workv1.ManifestWorkExecutor, left []report.Remainder,
) []report.Remainder {
	if executor == nil {
		return left
	}
	left = slices.Clone(left)
	slices.SortFunc(left, func(x, y report.Remainder) int {
		return cmp.Compare(report.NameOf(x.Resource), report.NameOf(y.Resource))
	})
	for i := range left {
		r := left[i].Resource
		gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
		left[i].Hidden = i >= report.MaxNamed || a.rights.MayRead(ctx, executor, gvr, r.Namespace, r.Name) != nil
	}
	return left
}
