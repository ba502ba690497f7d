package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

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
	mw := &workv1.ManifestWork{}
	err := a.hub.Get(ctx, a.workKey(name), mw)
	switch {
	case apierrors.IsNotFound(err):
		// Its objects stay for the time being: eviction decides about them.
		a.memory.forget(name)
		a.watches.set(name, nil)
		return 0, nil
	case err != nil:
		return 0, err
	case !mw.DeletionTimestamp.IsZero():
		return 0, a.finalizeWork(ctx, mw)
	}
	if !controllerutil.ContainsFinalizer(mw, work.ManifestWorkFinalizer) {
		if err := a.addFinalizer(ctx, mw); err != nil {
			return 0, err
		}
	}
	if meta.IsStatusConditionTrue(mw.Status.Conditions, work.ConditionComplete) {
		return 0, nil // what has been completed stays as it is
	}
	amw, err := a.ensureApplied(ctx, mw)
	if err != nil {
		return 0, err
	}
	return a.applyWork(ctx, mw, amw)
}

func (a *agent) addFinalizer(ctx context.Context, mw *workv1.ManifestWork) error {
	before := mw.DeepCopy()
	controllerutil.AddFinalizer(mw, work.ManifestWorkFinalizer)
	if err := a.hub.Patch(ctx, mw, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("add the finalizer to the work %s: %w", mw.Name, err)
	}
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
		return nil, fmt.Errorf("the AppliedManifestWork %s is still being deleted", amw.Name)
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

func (a *agent) applyWork(ctx context.Context, mw *workv1.ManifestWork, amw *workv1.AppliedManifestWork) (time.Duration, error) {
	manifests := readManifests(mw, a.objects.mapper)
	owner := metav1.OwnerReference{
		APIVersion: workv1.GroupVersion.String(), Kind: "AppliedManifestWork", Name: amw.Name, UID: amw.UID,
	}
	c := meta.FindStatusCondition(mw.Status.Conditions, work.ConditionApplied)
	known := c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == mw.Generation
	// Watch before applying, so that no change falls in between.
	a.watches.set(mw.Name, watched(manifests, amw))

	outcomes := make([]outcome, len(manifests))
	remembered := map[objectKey]outcome{}
	var denied bool
	for _, i := range inOrder(manifests) {
		m := manifests[i]
		o := a.carryOut(ctx, mw, m, owner, !known)
		var no *deniedError
		denied = denied || errors.As(o.applied, &no)
		outcomes[i] = o
		if m.err == nil {
			remembered[m.key()] = o
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	a.memory.set(mw.Name, remembered)
	pending, err := a.bookkeep(ctx, mw, amw, manifests, outcomes)
	err = errors.Join(err, a.report(ctx, mw, status(mw.Status, mw.Generation, manifests, outcomes)))
	again := jittered(resync)
	if denied {
		again = executorRetry
	}
	for i, o := range outcomes {
		var no *deniedError
		if o.applied == nil || errors.Is(o.applied, errApplyConflict) || errors.As(o.applied, &no) {
			continue // a quick retry would not help
		}
		err = errors.Join(err, fmt.Errorf("manifest %d of the work %s: %w", i, mw.Name, o.applied))
	}
	if err == nil && pending {
		err = errors.New("objects are still being deleted")
	}
	return again, err
}

func jittered(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/2))
}

// watched are the objects whose changes concern a work: those of its manifests,
// and those that it once made and that are on their way out.
func watched(manifests []*manifest, amw *workv1.AppliedManifestWork) map[objectKey]schema.GroupVersionResource {
	out := map[objectKey]schema.GroupVersionResource{}
	for _, r := range amw.Status.AppliedResources {
		gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
		out[objectKey{gvr.GroupResource(), r.Namespace, r.Name}] = gvr
	}
	for _, m := range manifests {
		if m.err == nil {
			out[m.key()] = m.gvr
		}
	}
	return out
}

// carryOut applies one manifest, unless nothing has changed since it last was.
func (a *agent) carryOut(ctx context.Context, mw *workv1.ManifestWork, m *manifest, owner metav1.OwnerReference, changed bool) outcome {
	if m.err != nil {
		return outcome{applied: m.err}
	}
	last, remembered := a.memory.get(mw.Name, m.key())
	if remembered && last.hash == m.hash {
		changed = false
		version, watched := a.watches.version(m.gvr, m.key())
		if watched && last.applied == nil && last.fetched == nil && version == last.resourceVersion && (last.exists || m.strategy.Type == workv1.UpdateStrategyTypeReadOnly) {
			return last
		}
	}
	if err := a.objects.mayApply(ctx, mw.Spec.Executor, m); err != nil {
		return a.observe(ctx, m, outcome{hash: m.hash, applied: err})
	}
	live, err := a.objects.apply(ctx, m, owner, changed)
	if err != nil {
		return a.observe(ctx, m, outcome{hash: m.hash, applied: err})
	}
	o := outcome{hash: m.hash}
	if live != nil {
		o.exists, o.uid, o.resourceVersion = true, live.GetUID(), live.GetResourceVersion()
		o.feedback = readFeedback(m.feedback, live)
	}
	return o
}

// observe reads the object of a manifest that could not be applied: it may
// exist nevertheless.
func (a *agent) observe(ctx context.Context, m *manifest, o outcome) outcome {
	live, err := a.objects.get(ctx, m.gvr, m.meta.Namespace, m.meta.Name)
	switch {
	case err != nil:
		o.fetched = err
	case live != nil:
		o.exists, o.uid, o.resourceVersion = true, live.GetUID(), live.GetResourceVersion()
		o.feedback = readFeedback(m.feedback, live)
	}
	return o
}

// report writes a work's status when it has changed.
func (a *agent) report(ctx context.Context, mw *workv1.ManifestWork, status workv1.ManifestWorkStatus) error {
	if apiequality.Semantic.DeepEqual(mw.Status, status) {
		return nil
	}
	before := mw.DeepCopy()
	mw.Status = status
	if err := a.hub.Status().Patch(ctx, mw, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("report the status of the work %s: %w", mw.Name, err)
	}
	was, is := meta.FindStatusCondition(before.Status.Conditions, work.ConditionApplied), meta.FindStatusCondition(status.Conditions, work.ConditionApplied)
	if is != nil && (was == nil || was.Status != is.Status) {
		slog.Info("work carried out", "work", mw.Name, "applied", is.Status)
	}
	return nil
}
