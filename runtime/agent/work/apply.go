package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/applier"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/executor"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/failure"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/inspect"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/memory"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/watches"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// look is one look at a work.
type look struct {
	work      *workv1.ManifestWork
	manifests []*manifest.Manifest
	// known is what is remembered of the work's manifests.
	known map[manifest.Key]memory.Object
	rules *inspect.Inspection
	// owner is the work's AppliedManifestWork, and fresh are the manifests whose
	// objects it never listed before.
	owner metav1.OwnerReference
	fresh map[*manifest.Manifest]bool
}

// situation is what is known of one manifest of the work.
func (l *look) situation(m *manifest.Manifest, w *watches.Watches, now time.Time) decide.Situation {
	s := decide.Situation{Manifest: m, Owner: l.owner.UID, Executor: executor.Name(l.work.Spec.Executor), Now: now}
	if m.Err != nil {
		return s
	}
	if last, ok := l.known[m.Key()]; ok {
		s.Last = &last
	}
	s.Version, s.Watched = w.Version(m.GVR, m.Key())
	return s
}

// applyWork applies the manifests of a work, deletes what it no longer holds, and
// reports.
func (a *agent) applyWork(ctx context.Context, l *look, amw *workv1.AppliedManifestWork) (reconcile.Result, error) {
	mw := l.work
	l.owner = metav1.OwnerReference{
		APIVersion: workv1.GroupVersion.String(), Kind: "AppliedManifestWork", Name: amw.Name, UID: amw.UID,
	}
	// Watch before applying, so that no change falls in between.
	a.watches.Set(mw.Name, decide.Watched(l.manifests, l.known, amw.Status.AppliedResources))

	if err := a.announce(ctx, l, amw); err != nil {
		return reconcile.Result{}, err
	}
	results := a.carryOutAll(ctx, l)
	if err := ctx.Err(); err != nil {
		return reconcile.Result{}, err
	}
	a.memory.SetObjects(mw.Name, byObject(l.manifests, results))
	outcomes := outcomesOf(results, a.clock.Now())
	pending, err := a.bookkeep(ctx, mw, amw, l.manifests, outcomes)
	next := report.Status(mw, l.manifests, outcomes, a.derive)
	report.SetPruned(&next.Conditions, a.readable(ctx, mw.Spec.Executor, pending), mw.Generation)
	err = errors.Join(err, a.answer(ctx, mw, next))
	a.events.failing(mw, outcomes, a.works.failures(mw.Name))
	for i, o := range outcomes {
		if o.Applied != nil && !decide.RetriedRarely(o.Applied) {
			err = errors.Join(err, fmt.Errorf("manifest %d of the work %s: %w", i, mw.Name, o.Applied))
		}
	}
	if err == nil && len(pending) > 0 {
		err = fmt.Errorf("objects are still being deleted: %w", errWaiting)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: decide.RequeueAfter(jittered(resync), results)}, nil
}

func jittered(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/2))
}

// carryOutAll applies the manifests of a work, kind by kind in their order, and
// those whose order does not matter at once.
func (a *agent) carryOutAll(ctx context.Context, l *look) []memory.Object {
	results := make([]memory.Object, len(l.manifests))
	for _, batch := range manifest.Batches(l.manifests) {
		var running errgroup.Group
		// So many objects of one work are held in memory at once.
		running.SetLimit(writers)
		for _, i := range batch {
			s := l.situation(l.manifests[i], a.watches, a.clock.Now())
			// What waits for its rules is only read when there is time for them.
			if s.Unchanged() && (s.Last.Waits == 0 || !l.rules.Open()) {
				results[i] = *s.Last
				continue
			}
			running.Go(func() error {
				results[i] = a.carryOut(ctx, l, s)
				return nil
			})
		}
		_ = running.Wait() // every result holds its own error
	}
	return results
}

// carryOut applies one manifest and evaluates the work's rules on its object.
func (a *agent) carryOut(ctx context.Context, l *look, s decide.Situation) memory.Object {
	if err := a.writers.Acquire(ctx, 1); err != nil {
		return memory.Object{Applied: memory.Applied{Err: err}}
	}
	r, live := a.applyManifest(ctx, l, s)
	a.writers.Release(1) // others may write while the rules are evaluated
	a.Inspect(ctx, l, s.Manifest, &r.Observed, live)
	return r
}

// applyManifest applies one manifest. It returns its object too, if that could be
// read.
func (a *agent) applyManifest(ctx context.Context, l *look, s decide.Situation) (r memory.Object, live *unstructured.Unstructured) {
	m := s.Manifest
	if m.Err != nil {
		r.Err = m.Err
		return r, nil
	}
	r.Hash, r.Owner, r.Executor = m.Hash, s.Owner, s.Executor
	if !m.Completed {
		r.Err = failureOf(m, a.rights.MayApply(ctx, m))
	}
	if m.Completed || r.Err != nil {
		r.Observed, live = a.observe(ctx, m)
		return r, live
	}
	// From here on it is known that the executor may get the object.
	r.Allowed = a.clock.Now()
	want := applier.Desired{Owner: l.owner, Fresh: l.fresh[m]}
	if s.Correcting() {
		want.Settled, r.Corrections, r.Rivals = s.Last.Body, s.Last.Corrections, s.Last.Rivals
		if r.Paused = r.Corrections.Wait(a.clock.Now()); r.Paused > 0 {
			r.Observed, live = a.read(ctx, m)
			return r, live
		}
	}
	s.Version, s.Watched = a.watches.Version(m.GVR, m.Key())
	start := a.clock.Now()
	result, err := a.applier.Apply(ctx, m, want)
	a.metrics.applied(m.Strategy.Type, a.clock.Since(start), err)
	if failure.IsConflict(err) {
		a.metrics.conflict(applyConflict)
	}
	if r.Err = failureOf(m, err); err != nil {
		r.Observed, live = a.read(ctx, m)
		return r, live
	}
	r.Observed = observedOf(result.Live)
	if result.Live != nil {
		r.Body = applier.BodyOf(result.Live)
	}
	if s.Correcting() && s.Wrote(result.Wrote, r.ResourceVersion) {
		r.Corrections, r.Rivals = r.Corrections.Again(a.clock.Now()), l.rivals(result.Live)
		if r.Corrections.SlowsDown() {
			a.log.Warn("others keep changing this object back: it is restored less and less often; "+
				"make sure that only one work or controller sets its fields",
				"work", l.work.Name, "kind", m.Meta.Kind, "namespace", m.Meta.Namespace, "name", m.Meta.Name)
		}
	}
	return r, result.Live
}

// rivals are the other works of the same hub that have an object.
func (l *look) rivals(live *unstructured.Unstructured) []string {
	if live == nil {
		return nil
	}
	var names []string
	ofHub := strings.TrimSuffix(l.owner.Name, l.work.Name)
	for _, owner := range live.GetOwnerReferences() {
		if name, ok := strings.CutPrefix(owner.Name, ofHub); ok && owner.Kind == l.owner.Kind && owner.UID != l.owner.UID {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// failureOf is what went wrong with a manifest, without the object's content.
func failureOf(m *manifest.Manifest, err error) error { return failure.Redacted(m.Meta, err) }

// watchOver reports on the objects of a complete work without touching them.
func (a *agent) watchOver(ctx context.Context, l *look) (reconcile.Result, error) {
	mw := l.work
	a.watches.Set(mw.Name, decide.Watched(l.manifests, l.known, nil))
	results := make([]memory.Object, len(l.manifests))
	// In another order at each look: there may not be time for the rules of all.
	for _, i := range rand.Perm(len(l.manifests)) {
		m, r := l.manifests[i], &results[i]
		if r.Err = m.Err; m.Err == nil {
			var live *unstructured.Unstructured
			r.Observed, live = a.observe(ctx, m)
			a.Inspect(ctx, l, m, &r.Observed, live)
		}
	}
	if err := ctx.Err(); err != nil {
		return reconcile.Result{}, err
	}
	outcomes := outcomesOf(results, a.clock.Now())
	for i := range outcomes {
		outcomes[i].Kept = true
	}
	if err := a.answer(ctx, mw, report.Status(mw, l.manifests, outcomes, a.derive)); err != nil {
		return reconcile.Result{}, err
	}
	if !decide.IsComplete(mw, l.manifests) {
		a.works.add(mw.Name) // its rules say something else now
	}
	return reconcile.Result{RequeueAfter: decide.RequeueAfter(jittered(resync), results)}, nil
}

func byObject(manifests []*manifest.Manifest, results []memory.Object) map[manifest.Key]memory.Object {
	out := make(map[manifest.Key]memory.Object, len(manifests))
	for i, m := range manifests {
		if m.Err == nil {
			out[m.Key()] = results[i]
		}
	}
	return out
}

func outcomesOf(results []memory.Object, now time.Time) []report.Outcome {
	out := make([]report.Outcome, len(results))
	for i, r := range results {
		out[i] = r.Outcome(now)
	}
	return out
}
