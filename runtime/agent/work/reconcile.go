package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	// resync is how often a work is looked at when nothing happens, from this on
	// up to half as long again. The watches make it a safety net.
	resync = 4 * time.Minute
	// executorRetry is how long a work waits whose executor was denied.
	executorRetry = time.Minute
)

// reconcileWork brings the managed cluster in line with one work, and reports.
func (a *agent) reconcileWork(ctx context.Context, name string) (time.Duration, error) {
	mw, err := a.get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		// Its objects stay for the time being: eviction decides about them.
		a.forget(name)
		return 0, nil
	case err != nil:
		return 0, err
	case mw == nil:
		return patience, nil
	case !mw.DeletionTimestamp.IsZero():
		return 0, a.finalizeWork(ctx, mw)
	}
	if !controllerutil.ContainsFinalizer(mw, work.ManifestWorkFinalizer) {
		if err := a.addFinalizer(ctx, mw); err != nil {
			return 0, err
		}
	}
	manifests := readManifests(mw, a.objects.mapper)
	looking := &inspection{clock: a.clock, turn: a.slow}
	if a.memory.isSlow(name) {
		looking.took = lightInspection // it takes its turn from the beginning
	}
	// A work that is not there any more is not remembered.
	defer func() {
		if slow := looking.end(); slow != a.memory.isSlow(name) {
			a.memory.setSlow(name, slow)
		}
	}()
	for _, m := range manifests {
		m.inspection = looking
	}
	if isComplete(mw, manifests) {
		return a.watchOver(ctx, mw, manifests)
	}
	amw, err := a.ensureApplied(ctx, mw)
	if apierrors.IsInvalid(err) {
		// A name that is too long, say: the work's author has to know.
		return 0, errors.Join(err, a.report(ctx, mw, refused(mw.Status, mw.Generation, err)))
	}
	if err != nil {
		return 0, err
	}
	return a.applyWork(ctx, mw, amw, manifests)
}

func (a *agent) addFinalizer(ctx context.Context, mw *workv1.ManifestWork) error {
	before := mw.DeepCopy()
	controllerutil.AddFinalizer(mw, work.ManifestWorkFinalizer)
	if err := a.hub.Patch(ctx, mw, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("add the finalizer to the work %s: %w", mw.Name, err)
	}
	a.freshness.wrote(mw)
	return nil
}

// ensureApplied makes the AppliedManifestWork that owns a work's objects.
func (a *agent) ensureApplied(ctx context.Context, mw *workv1.ManifestWork) (*workv1.AppliedManifestWork, error) {
	amw := &workv1.AppliedManifestWork{}
	key := types.NamespacedName{Name: work.AppliedManifestWorkName(a.hubHash, mw.Name)}
	want := workv1.AppliedManifestWorkSpec{HubHash: a.hubHash, ManifestWorkName: mw.Name, AgentID: a.agentID}
	err := a.local.Get(ctx, key, amw)
	switch {
	case apierrors.IsNotFound(err):
		amw = &workv1.AppliedManifestWork{
			ObjectMeta: metav1.ObjectMeta{Name: key.Name, Labels: mw.Labels, Finalizers: []string{work.AppliedManifestWorkFinalizer}},
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
	case amw.Spec != want || !controllerutil.ContainsFinalizer(amw, work.AppliedManifestWorkFinalizer):
		before := amw.DeepCopy()
		amw.Spec = want
		controllerutil.AddFinalizer(amw, work.AppliedManifestWorkFinalizer)
		if err := a.local.Patch(ctx, amw, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return nil, fmt.Errorf("take over the AppliedManifestWork %s: %w", amw.Name, err)
		}
	}
	return amw, nil
}

func (a *agent) applyWork(ctx context.Context, mw *workv1.ManifestWork, amw *workv1.AppliedManifestWork, manifests []*manifest) (time.Duration, error) {
	owner := metav1.OwnerReference{
		APIVersion: workv1.GroupVersion.String(), Kind: "AppliedManifestWork", Name: amw.Name, UID: amw.UID,
	}
	// Watch before applying, so that no change falls in between.
	a.watches.set(mw.Name, a.watched(mw, manifests, amw))

	if err := a.announce(ctx, amw, manifests); err != nil {
		return 0, err
	}
	outcomes := a.carryOutAll(ctx, mw, manifests, owner)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	a.memory.set(mw.Name, byObject(manifests, outcomes))
	pending, err := a.bookkeep(ctx, mw, amw, manifests, outcomes)
	next := status(mw, manifests, outcomes, a.derive)
	setPruned(&next.Conditions, a.tellable(ctx, mw.Spec.Executor, pending), mw.Generation)
	err = errors.Join(err, a.report(ctx, mw, next))
	a.events.tell(mw, outcomes, a.works.failures(mw.Name))
	again := jittered(resync)
	for _, o := range outcomes {
		if o.later > 0 {
			again = min(again, o.later)
		}
		if o.hidden {
			again = min(again, executorRetry)
		}
	}
	for i, o := range outcomes {
		if o.applied == nil {
			continue
		}
		if triedRarely(o.applied) {
			if !isApplyConflict(o.applied) {
				again = min(again, executorRetry)
			}
			continue
		}
		err = errors.Join(err, fmt.Errorf("manifest %d of the work %s: %w", i, mw.Name, o.applied))
	}
	if err == nil && len(pending) > 0 {
		err = fmt.Errorf("objects are still being deleted: %w", errWaiting)
	}
	return again, err
}

// triedRarely reports whether a quick retry would not help.
func triedRarely(err error) bool {
	return isDenied(err) || isApplyConflict(err)
}

func jittered(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/2))
}

// watched are the objects whose changes concern a work: those of its manifests,
// those that it once made and that are on their way out, and those whose lack
// keeps a manifest from being applied: a namespace, or a kind's definition.
func (a *agent) watched(mw *workv1.ManifestWork, manifests []*manifest, amw *workv1.AppliedManifestWork) map[objectKey]schema.GroupVersionResource {
	out := map[objectKey]schema.GroupVersionResource{}
	for _, r := range amw.Status.AppliedResources {
		gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
		out[objectKey{gvr.GroupResource(), r.Namespace, r.Name}] = gvr
	}
	for _, m := range manifests {
		if m.unknownKind { // until somebody defines it
			gvr := apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
			out[objectKey{GroupResource: gvr.GroupResource()}] = gvr
		}
		if m.err != nil {
			continue
		}
		last, ok := a.memory.get(mw.Name, m.key())
		if ok && last.hidden {
			continue // its changes are nothing to the work
		}
		out[m.key()] = m.gvr
		if ok && m.meta.Namespace != "" && apierrors.IsNotFound(last.applied) {
			gvr := corev1.SchemeGroupVersion.WithResource("namespaces")
			out[objectKey{gvr.GroupResource(), "", m.meta.Namespace}] = gvr
		}
	}
	return out
}

// carryOutAll applies the manifests of a work, kind by kind in their order, and
// those whose order does not matter at once.
func (a *agent) carryOutAll(ctx context.Context, mw *workv1.ManifestWork, manifests []*manifest, owner metav1.OwnerReference) []outcome {
	outcomes := make([]outcome, len(manifests))
	// So many objects of one work are held in memory at once. The place among the
	// writers is given back before the work's rules are evaluated.
	held := make(chan struct{}, writers)
	for _, batch := range batches(manifests) {
		var running sync.WaitGroup
		for _, i := range batch {
			last, ok := a.unchanged(mw, manifests[i], owner)
			if ok {
				outcomes[i] = last
				continue
			}
			held <- struct{}{}
			a.writers <- struct{}{}
			running.Go(func() {
				defer func() { <-held }()
				o := a.carryOut(ctx, mw, manifests[i], owner)
				<-a.writers
				a.inspect(ctx, &o, manifests[i])
				outcomes[i] = o
			})
		}
		running.Wait()
	}
	return outcomes
}

func byObject(manifests []*manifest, outcomes []outcome) map[objectKey]outcome {
	out := make(map[objectKey]outcome, len(manifests))
	for i, m := range manifests {
		if m.err == nil {
			out[m.key()] = outcomes[i]
		}
	}
	return out
}

// unchanged is what became of a manifest when it was last applied, if neither it
// nor its object nor the rights to apply it can have changed since.
func (a *agent) unchanged(mw *workv1.ManifestWork, m *manifest, owner metav1.OwnerReference) (outcome, bool) {
	if m.err != nil {
		return outcome{}, false
	}
	last, ok := a.memory.get(mw.Name, m.key())
	if !ok || last.hash != m.hash || last.owner != owner.UID || last.applied != nil || last.fetched != nil || last.later > 0 && !last.waits {
		return last, false
	}
	if who := executorName(mw.Spec.Executor); who != last.executor || who != "" && a.clock.Since(last.allowed) >= executorRetry {
		return last, false
	}
	version, watched := a.watches.version(m.gvr, m.key())
	same := watched && version == last.resourceVersion && (last.exists || m.strategy.Type == workv1.UpdateStrategyTypeReadOnly)
	// What waits for its rules is only read when there is time for them.
	return last, same && (!last.waits || !m.inspection.open())
}

// carryOut applies one manifest.
func (a *agent) carryOut(ctx context.Context, mw *workv1.ManifestWork, m *manifest, owner metav1.OwnerReference) outcome {
	if m.err != nil {
		return outcome{applied: m.err}
	}
	o := outcome{hash: m.hash, owner: owner.UID, executor: executorName(mw.Spec.Executor)}
	last, ok := a.memory.get(mw.Name, m.key())
	// What was applied before only needs to be put right.
	mend := ok && last.hash == m.hash && last.applied == nil
	if m.completed {
		return a.observe(ctx, m, o)
	}
	if o.applied = tellableFailure(m, a.objects.mayApply(ctx, m)); o.applied != nil {
		return a.observe(ctx, m, o)
	}
	// From here on it is known that the executor may get the object.
	o.allowed = a.clock.Now()
	var settled bodyHash
	if mend {
		settled, o.mends = last.body, last.mends
		if o.later = last.mends.wait(a.clock.Now()); o.later > 0 {
			return a.look(ctx, m, o)
		}
	}
	version, watched := a.watches.version(m.gvr, m.key())
	start := a.clock.Now()
	r, err := a.objects.apply(ctx, m, owner, settled)
	a.metrics.applied(m.strategy.Type, a.clock.Since(start), err)
	if isApplyConflict(err) {
		a.metrics.conflict(applyConflict)
	}
	if o.applied = tellableFailure(m, err); err != nil {
		return a.look(ctx, m, o)
	}
	see(&o, r.live)
	if r.live != nil {
		o.body = bodyOf(r.live)
	}
	// Server-side apply does not tell whether it changed anything.
	wrote := r.wrote && (m.strategy.Type != workv1.UpdateStrategyTypeServerSideApply || !watched || version != o.resourceVersion)
	if mend && wrote {
		o.mends = last.mends.again(a.clock.Now())
		if o.mends.count == freeMends+1 {
			slog.Warn("somebody else keeps changing an object back: it is put right less and less often; see that only one work or controller sets its fields",
				"work", mw.Name, "kind", m.meta.Kind, "namespace", m.meta.Namespace, "name", m.meta.Name)
		}
	}
	return o
}

// isComplete reports whether a work has done what it is for. Then it stays as it
// is until there is no rule any more that says so.
func isComplete(mw *workv1.ManifestWork, manifests []*manifest) bool {
	c := meta.FindStatusCondition(mw.Status.Conditions, work.ConditionComplete)
	if c == nil || c.Status != metav1.ConditionTrue {
		return false
	}
	return c.Reason != work.ReasonRulesAggregated ||
		slices.ContainsFunc(manifests, func(m *manifest) bool { return m.hasRule(work.ConditionComplete) })
}

// watchOver reports on the objects of a complete work without touching them.
func (a *agent) watchOver(ctx context.Context, mw *workv1.ManifestWork, manifests []*manifest) (time.Duration, error) {
	a.watches.set(mw.Name, a.watched(mw, manifests, &workv1.AppliedManifestWork{}))
	outcomes := make([]outcome, len(manifests))
	again := jittered(resync)
	// In another order at each look: there may not be time for the rules of all.
	for _, i := range rand.Perm(len(manifests)) {
		m := manifests[i]
		outcomes[i] = outcome{kept: true, applied: m.err}
		if m.err == nil {
			outcomes[i] = a.observe(ctx, m, outcomes[i])
			a.inspect(ctx, &outcomes[i], m)
		}
		if outcomes[i].hidden {
			again = min(again, executorRetry)
		}
		if outcomes[i].later > 0 {
			again = min(again, outcomes[i].later)
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := a.report(ctx, mw, status(mw, manifests, outcomes, a.derive)); err != nil {
		return 0, err
	}
	if !isComplete(mw, manifests) {
		a.works.add(mw.Name) // its rules say something else by now
	}
	return again, nil
}

// report writes a work's status when it has changed, as much of it as the hub
// takes.
func (a *agent) report(ctx context.Context, mw *workv1.ManifestWork, whole workv1.ManifestWorkStatus) error {
	for {
		status := fit(whole, a.rooms.of(mw), mw.Generation)
		err := a.reportAs(ctx, mw, status)
		if !tooLarge(err) || !a.rooms.refused(mw, status) {
			return err
		}
	}
}

func (a *agent) reportAs(ctx context.Context, mw *workv1.ManifestWork, status workv1.ManifestWorkStatus) error {
	if apiequality.Semantic.DeepEqual(mw.Status, status) {
		a.metrics.see(mw)
		return nil
	}
	before := mw.DeepCopy()
	after := mw.DeepCopy()
	after.Status = status
	if err := a.hub.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("report the status of the work %s: %w", mw.Name, err)
	}
	*mw = *after
	a.freshness.wrote(mw)
	a.metrics.see(mw)
	was, is := meta.FindStatusCondition(before.Status.Conditions, work.ConditionApplied), meta.FindStatusCondition(status.Conditions, work.ConditionApplied)
	if is != nil && (was == nil || was.Status != is.Status) {
		slog.Info("work carried out", "work", mw.Name, "applied", is.Status)
	}
	if c := meta.FindStatusCondition(status.Conditions, work.ConditionStatusTruncated); c != nil && meta.FindStatusCondition(before.Status.Conditions, c.Type) == nil {
		slog.Warn("a work's status is not reported in full", "work", mw.Name, "why", c.Message)
		a.events.truncated(mw, c.Message)
	}
	return nil
}
