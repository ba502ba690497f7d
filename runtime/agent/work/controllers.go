package work

import (
	"context"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
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
// have changed, or it is to be applied once more. The status is what this agent
// reports. A resync counts as a change.
func workChanged(before, after *workv1.ManifestWork) bool {
	request := after.Annotations[apiwork.ReplayAnnotation]
	return changed(before, after) ||
		len(before.Finalizers) != len(after.Finalizers) || !maps.Equal(before.Labels, after.Labels) ||
		request != "" && request != before.Annotations[apiwork.ReplayAnnotation]
}

// changed reports whether the spec or the deletion of an object has changed. A
// resync counts as a change.
func changed(before, after metav1.Object) bool {
	return before.GetResourceVersion() == after.GetResourceVersion() ||
		before.GetGeneration() != after.GetGeneration() ||
		before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
}
