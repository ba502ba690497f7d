package replicaset

import (
	"context"
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
)

const (
	// byPlacement is the index of sets by the placements that they name.
	byPlacement = "spec.placementRefs.name"
	// external is the index of placements that another scheduler decides for; all
	// of them have the value "true".
	external = "metadata.annotations.schedulingdisabled"
)

func scheduledElsewhere(o client.Object) []string {
	if selection.ScheduledElsewhere(o) {
		return []string{"true"}
	}
	return nil
}

func placementsOf(o client.Object) (names []string) {
	for _, ref := range o.(*workv1alpha1.ManifestWorkReplicaSet).Spec.PlacementRefs {
		names = append(names, ref.Name)
	}
	return names
}

// ofCluster are the sets that wait for a cluster, and those that another
// scheduler decides for.
func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return append(watch.Requests(c.awaited.Of(o.GetName())), c.externallyScheduled(ctx, "")...)
}

// ofChoice are the sets that a change of what may be chosen concerns: of all
// namespaces for a cluster set, of its own for a binding.
func (c *Controller) ofChoice(ctx context.Context, o client.Object) []reconcile.Request {
	return append(watch.Requests(c.awaited.In(o.GetNamespace())), c.externallyScheduled(ctx, o.GetNamespace())...)
}

// externallyScheduled are the sets with a placement that another scheduler
// decides for, in a namespace or, if that is empty, anywhere.
func (c *Controller) externallyScheduled(ctx context.Context, namespace string) (out []reconcile.Request) {
	placements := watch.Matching[client.Object](ctx, c.client, &clusterv1beta1.PlacementList{}, nil,
		client.InNamespace(namespace), client.MatchingFields{external: "true"})
	for _, p := range placements {
		out = append(out, c.naming(ctx, p.NamespacedName)...)
	}
	return out
}

// workChanged selects changes of what the cache holds of a work.
func workChanged(was, is client.Object) bool {
	before, ok := was.(*workv1.ManifestWork)
	after, also := is.(*workv1.ManifestWork)
	return ok && also && (before.UID != after.UID || before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) ||
		!apiequality.Semantic.DeepEqual(before.Status, after.Status))
}

// ofWork is the set of a work.
func ofWork(_ context.Context, o client.Object) []reconcile.Request {
	if set, ok := setOf(o.GetLabels()[work.ReplicaSetLabel]); ok {
		return []reconcile.Request{{NamespacedName: set}}
	}
	return nil
}

// ofDecision are the sets of a decision's placement.
func (c *Controller) ofDecision(ctx context.Context, o client.Object) []reconcile.Request {
	return c.naming(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[cluster.PlacementLabel]})
}

func (c *Controller) ofPlacement(ctx context.Context, o client.Object) []reconcile.Request {
	return c.naming(ctx, client.ObjectKeyFromObject(o))
}

// naming are the sets that name a placement.
func (c *Controller) naming(ctx context.Context, placement types.NamespacedName) []reconcile.Request {
	return watch.Matching[client.Object](ctx, c.client, &workv1alpha1.ManifestWorkReplicaSetList{}, nil,
		client.InNamespace(placement.Namespace), client.MatchingFields{byPlacement: placement.Name})
}
