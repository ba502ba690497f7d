package work

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/watches"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
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
	mw := &workv1.ManifestWork{}
	err := a.written.Read(ctx, a.hub, a.engine.GetAPIReader(), r.NamespacedName, mw)
	switch {
	case apierrors.IsNotFound(err):
		// Its objects stay for the time being: eviction decides about them.
		a.forget(r.Name)
		return reconcile.Result{}, nil
	case errors.Is(err, engine.ErrOutdated):
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

type (
	workHandler    = handler.TypedFuncs[*workv1.ManifestWork, reconcile.Request]
	appliedHandler = handler.TypedFuncs[*workv1.AppliedManifestWork, reconcile.Request]
)

// registerControllers adds both controllers to the manager. Each of them watches
// both sides, so that it begins with a full view of both: a work that is not in
// the cache yet would count as deleted.
func (a *agent) registerControllers(hub, local cache.Cache) error {
	if err := a.engine.AddController(engine.Controller{
		Name: "manifestwork", Queue: a.works, Reconcile: a.reconcileWork, Workers: workers,
		Sources: []source.Source{
			source.Kind(hub, &workv1.ManifestWork{}, a.worksOfHub()),
			source.Kind(local, &workv1.AppliedManifestWork{}, a.worksOfApplied()),
		},
	}); err != nil {
		return err
	}
	return a.engine.AddController(engine.Controller{
		Name: "appliedmanifestwork", Queue: a.applied, Reconcile: a.reconcileApplied, Workers: workers,
		Sources: []source.Source{
			source.Kind(local, &workv1.AppliedManifestWork{}, a.appliedOfCluster()),
			source.Kind(hub, &workv1.ManifestWork{}, a.appliedOfWorks()),
		},
	})
}

// worksOfHub queues works that are new, changed or deleted on the hub.
func (a *agent) worksOfHub() workHandler {
	return workHandler{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*workv1.ManifestWork], q engine.Requests) {
			q.Add(a.works.Request(e.Object.Name))
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*workv1.ManifestWork], q engine.Requests) {
			changed := workChanged(e.ObjectOld, e.ObjectNew)
			if changed {
				a.works.Forget(e.ObjectNew.Name) // it may work now
			}
			if changed || a.written.IsAwaited(a.workKey(e.ObjectNew.Name)) {
				q.Add(a.works.Request(e.ObjectNew.Name))
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*workv1.ManifestWork], q engine.Requests) {
			q.Add(a.works.Request(e.Object.Name))
		},
	}
}

// worksOfApplied queues works whose AppliedManifestWork is gone.
func (a *agent) worksOfApplied() appliedHandler {
	return appliedHandler{
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*workv1.AppliedManifestWork], q engine.Requests) {
			if e.Object.Spec.HubHash == a.hubHash {
				q.Add(a.works.Request(e.Object.Spec.ManifestWorkName))
			}
		},
	}
}

// appliedOfCluster queues AppliedManifestWorks that are new or changed.
func (a *agent) appliedOfCluster() appliedHandler {
	return appliedHandler{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*workv1.AppliedManifestWork], q engine.Requests) {
			q.Add(a.applied.Request(e.Object.Name))
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*workv1.AppliedManifestWork], q engine.Requests) {
			if changed(e.ObjectOld, e.ObjectNew) {
				q.Add(a.applied.Request(e.ObjectNew.Name))
			}
		},
	}
}

// appliedOfWorks queues AppliedManifestWorks whose work has been deleted, or is
// back, so that they are not evicted.
func (a *agent) appliedOfWorks() workHandler {
	request := func(mw *workv1.ManifestWork) reconcile.Request {
		return a.applied.Request(apiwork.AppliedManifestWorkName(a.hubHash, mw.Name))
	}
	return workHandler{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*workv1.ManifestWork], q engine.Requests) {
			q.Add(request(e.Object))
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*workv1.ManifestWork], q engine.Requests) {
			q.Add(request(e.Object))
		},
	}
}

// workChanged reports whether the spec, labels, finalizers or deletion of a work
// have changed, or it is to be applied once more. A resync counts as a change. The
// status is what this agent reports. Specs are compared because a hub that was restored
// from a backup may give a new one the generation of one that was lost.
func workChanged(before, after *workv1.ManifestWork) bool {
	request := after.Annotations[apiwork.ReplayAnnotation]
	return changed(before, after) || statusIsLost(before, after) ||
		!apiequality.Semantic.DeepEqual(before.Spec, after.Spec) ||
		len(before.Finalizers) != len(after.Finalizers) || !maps.Equal(before.Labels, after.Labels) ||
		request != "" && request != before.Annotations[apiwork.ReplayAnnotation]
}

// statusIsLost reports whether a work's status is no longer what this agent has reported,
// because the hub was restored from a backup: the work is older than it was, or it was
// written again, and has a status of another generation.
func statusIsLost(before, after *workv1.ManifestWork) bool {
	if engine.IsOlder(after, before) {
		return true
	}
	applied := meta.FindStatusCondition(after.Status.Conditions, apiwork.ConditionApplied)
	return (applied == nil || applied.ObservedGeneration != after.Generation) &&
		!apiequality.Semantic.DeepEqual(before.Status, after.Status)
}

// changed reports whether the spec or the deletion of an object has changed. A
// resync counts as a change.
func changed(before, after metav1.Object) bool {
	return before.GetResourceVersion() == after.GetResourceVersion() ||
		before.GetGeneration() != after.GetGeneration() ||
		before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
}

// read reads all that it takes to decide about a work, and has its objects
// watched, so that no change falls in between.
func (a *agent) read(ctx context.Context, mw *workv1.ManifestWork) (*pass, error) {
	appliedName := apiwork.AppliedManifestWorkName(a.hubHash, mw.Name)
	if !controllerutil.ContainsFinalizer(mw, apiwork.ManifestWorkFinalizer) {
		written, err := patch.Object(ctx, a.hub, mw, func() bool {
			return controllerutil.AddFinalizer(mw, apiwork.ManifestWorkFinalizer)
		})
		if err != nil {
			return nil, fmt.Errorf("add the finalizer to the work %s: %w", mw.Name, err)
		}
		if !written {
			return nil, fmt.Errorf("the work %s is gone: %w", mw.Name, engine.ErrWaiting)
		}
		a.written.Wrote(mw)
	}
	// The author may ask for all of the work to be applied once more. What is not
	// remembered is applied, also while corrections are paused.
	if request := mw.Annotations[apiwork.ReplayAnnotation]; request != "" {
		a.log.Info("applying a work once more, as asked", "work", mw.Name, "request", request)
		a.memory.Forget(mw.Name, appliedName)
	}
	p := &pass{work: mw, last: a.memory.Recall(mw.Name)}
	applied := &workv1.AppliedManifestWork{}
	switch err := a.local.Get(ctx, types.NamespacedName{Name: appliedName}, applied); {
	case err == nil:
		p.applied = applied
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	made := applied.Status.AppliedResources
	p.known = decide.Input{
		Work: mw, Manifests: manifest.Read(mw, a.mapper), Last: p.last.Results,
		Owner: applied.UID, Listed: made, Now: a.clock.Now(),
	}
	concerning := watches.Concerning(p.known.Manifests, p.known.Last, made)
	p.known.Versions = a.watches.Set(mw.Name, concerning)
	return p, nil
}
