package work

import (
	"context"
	"maps"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

type (
	workHandler    = handler.TypedFuncs[*workv1.ManifestWork, reconcile.Request]
	appliedHandler = handler.TypedFuncs[*workv1.AppliedManifestWork, reconcile.Request]
)

// registerControllers adds both controllers to the manager. Each of them watches
// both sides, so that it begins with a full view of both: a work that is not in
// the cache yet would count as deleted.
func (a *agent) registerControllers(hub, local cache.Cache) error {
	if err := a.register("manifestwork", a.works, a.reconcileWork,
		source.Kind(hub, &workv1.ManifestWork{}, a.worksOfHub()),
		source.Kind(local, &workv1.AppliedManifestWork{}, a.worksOfApplied()),
	); err != nil {
		return err
	}
	return a.register("appliedmanifestwork", a.applied, a.reconcileApplied,
		source.Kind(local, &workv1.AppliedManifestWork{}, a.appliedOfCluster()),
		source.Kind(hub, &workv1.ManifestWork{}, a.appliedOfWorks()),
	)
}

// register adds a controller to the manager.
func (a *agent) register(name string, q *queue, f reconcile.Func, sources ...source.Source) error {
	c, err := controller.New(name, a.manager, controller.Options{
		Reconciler:              a.logFailures(name, q, f),
		MaxConcurrentReconciles: workers,
		RateLimiter:             q.limiter,
		// What fails is logged by logFailures, once for each cause.
		LogConstructor: func(*reconcile.Request) logr.Logger { return logr.Discard() },
	})
	if err != nil {
		return err
	}
	for _, s := range append(sources, q) {
		if err := c.Watch(s); err != nil {
			return err
		}
	}
	return nil
}

// worksOfHub queues works that are new, changed or deleted on the hub.
func (a *agent) worksOfHub() workHandler {
	return workHandler{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*workv1.ManifestWork], q requests) {
			q.Add(a.works.request(e.Object.Name))
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*workv1.ManifestWork], q requests) {
			changed := workChanged(e.ObjectOld, e.ObjectNew)
			if changed {
				a.works.forget(e.ObjectNew.Name) // it may work now
			}
			if changed || a.freshness.waits(e.ObjectNew.Name) {
				q.Add(a.works.request(e.ObjectNew.Name))
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*workv1.ManifestWork], q requests) {
			q.Add(a.works.request(e.Object.Name))
		},
	}
}

// worksOfApplied queues works whose AppliedManifestWork is gone.
func (a *agent) worksOfApplied() appliedHandler {
	return appliedHandler{
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*workv1.AppliedManifestWork], q requests) {
			if e.Object.Spec.HubHash == a.hubHash {
				q.Add(a.works.request(e.Object.Spec.ManifestWorkName))
			}
		},
	}
}

// appliedOfCluster queues AppliedManifestWorks that are new or changed.
func (a *agent) appliedOfCluster() appliedHandler {
	return appliedHandler{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*workv1.AppliedManifestWork], q requests) {
			q.Add(a.applied.request(e.Object.Name))
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*workv1.AppliedManifestWork], q requests) {
			if appliedChanged(e.ObjectOld, e.ObjectNew) {
				q.Add(a.applied.request(e.ObjectNew.Name))
			}
		},
	}
}

// appliedOfWorks queues AppliedManifestWorks whose work has been deleted, or is
// back, so that they are not evicted.
func (a *agent) appliedOfWorks() workHandler {
	request := func(mw *workv1.ManifestWork) reconcile.Request {
		return a.applied.request(apiwork.AppliedManifestWorkName(a.hubHash, mw.Name))
	}
	return workHandler{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*workv1.ManifestWork], q requests) {
			q.Add(request(e.Object))
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*workv1.ManifestWork], q requests) {
			q.Add(request(e.Object))
		},
	}
}

// workChanged reports whether the spec, labels, finalizers or deletion of a work
// have changed, or it is to be applied once more. What this agent reports in the status is no news to it. A resync
// counts as a change.
func workChanged(before, after *workv1.ManifestWork) bool {
	return before.ResourceVersion == after.ResourceVersion || before.Generation != after.Generation ||
		len(before.Finalizers) != len(after.Finalizers) || !maps.Equal(before.Labels, after.Labels) ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		before.Annotations[apiwork.ReplayAnnotation] != after.Annotations[apiwork.ReplayAnnotation] && after.Annotations[apiwork.ReplayAnnotation] != ""
}

// appliedChanged reports whether others have changed an AppliedManifestWork: its
// spec, or that it is deleted. A resync counts as a change.
func appliedChanged(before, after *workv1.AppliedManifestWork) bool {
	return before.ResourceVersion == after.ResourceVersion || before.Generation != after.Generation ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
}
