package placement

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling/incremental"
)

// feed is how one kind of object gets into the engine.
type feed struct {
	kind   client.Object
	upsert func(client.Object) []types.NamespacedName
	remove func(types.NamespacedName) []types.NamespacedName
}

// feeds are those of all kinds that placements depend on.
func feeds(e *incremental.Engine) []feed {
	return []feed{
		{
			&clusterv1.ManagedCluster{},
			func(o client.Object) []types.NamespacedName { return e.UpsertCluster(o.(*clusterv1.ManagedCluster)) },
			func(key types.NamespacedName) []types.NamespacedName { return e.DeleteCluster(key.Name) },
		},
		{
			&clusterv1beta2.ManagedClusterSet{},
			func(o client.Object) []types.NamespacedName {
				return e.UpsertSet(o.(*clusterv1beta2.ManagedClusterSet))
			},
			func(key types.NamespacedName) []types.NamespacedName { return e.DeleteSet(key.Name) },
		},
		{
			&clusterv1beta2.ManagedClusterSetBinding{},
			func(o client.Object) []types.NamespacedName { return e.UpsertBinding(client.ObjectKeyFromObject(o)) },
			e.DeleteBinding,
		},
		{
			&clusterv1alpha1.AddOnPlacementScore{},
			func(o client.Object) []types.NamespacedName {
				return e.UpsertScore(o.(*clusterv1alpha1.AddOnPlacementScore))
			},
			e.DeleteScore,
		},
		{
			&clusterv1beta1.Placement{},
			func(o client.Object) []types.NamespacedName {
				return e.UpsertPlacement(o.(*clusterv1beta1.Placement))
			},
			e.DeletePlacement,
		},
		{
			&clusterv1beta1.PlacementDecision{},
			func(o client.Object) []types.NamespacedName {
				return e.UpsertDecision(o.(*clusterv1beta1.PlacementDecision))
			},
			e.DeleteDecision,
		},
	}
}

// handler passes an event to the engine before it enqueues the placements that it
// concerns, so that they are scheduled with it. The objects are those of the
// cache, which nobody changes.
func (f feed) handler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(q queue, concerned []types.NamespacedName) {
		for _, request := range watch.Requests(concerned) {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, f.upsert(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { wake(q, f.upsert(e.ObjectNew)) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			wake(q, f.remove(client.ObjectKeyFromObject(e.Object)))
		},
	}
}
