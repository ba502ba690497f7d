package replicaset

import (
	"context"
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// workers is how many sets are reconciled at a time.
const workers = 5

const (
	// byPlacement is the index of sets by the placements that they name.
	byPlacement = "spec.placementRefs.name"
	// bySet is the index of works by the label that names their set.
	bySet = "metadata.labels.manifestworkreplicaset"
	// external is the index of placements that another scheduler decides for; all
	// of them have the value "true".
	external = "metadata.annotations.schedulingdisabled"
)

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	if err := m.GetFieldIndexer().IndexField(context.Background(), &workv1alpha1.ManifestWorkReplicaSet{}, byPlacement, placementsOf); err != nil {
		return err
	}
	if err := m.GetFieldIndexer().IndexField(context.Background(), &clusterv1beta1.Placement{}, external, scheduledElsewhere); err != nil {
		return err
	}
	leanWorks, err := worksCache(m)
	if err != nil {
		return err
	}
	c.works = works{Reader: leanWorks, of: func(label string) client.ListOption { return client.MatchingFields{bySet: label} }}
	return builder.ControllerManagedBy(m).
		Named("manifestworkreplicaset").
		// Its own reports, too: one that was made from an older state of the set
		// is looked over again.
		For(&workv1alpha1.ManifestWorkReplicaSet{}).
		Watches(&clusterv1beta1.Placement{}, handler.EnqueueRequestsFromMapFunc(c.ofPlacement), builder.WithPredicates(selectionChanged())).
		Watches(&clusterv1beta1.PlacementDecision{}, handler.EnqueueRequestsFromMapFunc(c.ofDecision)).
		// Which clusters a placement may choose. Our own scheduler writes the
		// decisions again then; of other schedulers that is not known.
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(standingChanged())).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.ofChoice), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1beta2.ManagedClusterSetBinding{}, handler.EnqueueRequestsFromMapFunc(c.ofChoice), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Kind[client.Object](leanWorks, &workv1.ManifestWork{}, handler.EnqueueRequestsFromMapFunc(ofWork), workChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(c)
}

// worksCache holds the works of sets without their manifests. It is apart from
// the manager's cache, where others expect whole works, and all of them.
func worksCache(m manager.Manager) (cache.Cache, error) {
	labelled, err := labels.NewRequirement(work.ReplicaSetLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	c, err := cache.New(m.GetConfig(), cache.Options{
		HTTPClient: m.GetHTTPClient(),
		Scheme:     m.GetScheme(),
		Mapper:     m.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&workv1.ManifestWork{}: {Label: labels.NewSelector().Add(*labelled), Transform: lean},
		},
	})
	if err != nil {
		return nil, err
	}
	label := func(o client.Object) []string { return []string{o.GetLabels()[work.ReplicaSetLabel]} }
	if err := c.IndexField(context.Background(), &workv1.ManifestWork{}, bySet, label); err != nil {
		return nil, err
	}
	return c, m.Add(c)
}

func scheduledElsewhere(o client.Object) []string {
	if o.GetAnnotations()[cluster.SchedulingDisabledAnnotation] == "true" {
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

// selectionChanged lets pass what a placement says of its selection. Which
// clusters it selected is in its decisions.
func selectionChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*clusterv1beta1.Placement).Status, e.ObjectNew.(*clusterv1beta1.Placement).Status
		return was.NumberOfSelectedClusters != is.NumberOfSelectedClusters || len(was.DecisionGroups) != len(is.DecisionGroups) ||
			e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			len(scheduledElsewhere(e.ObjectOld)) != len(scheduledElsewhere(e.ObjectNew))
	}}
}

// standingChanged lets pass what may let a cluster get works, or keep it from it.
func standingChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*clusterv1.ManagedCluster), e.ObjectNew.(*clusterv1.ManagedCluster)
		return !maps.Equal(was.Labels, is.Labels) || was.Spec.AcceptsClient() != is.Spec.AcceptsClient() ||
			was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() || was.UID != is.UID
	}}
}

// ofCluster are the sets that wait for a cluster, and those that another
// scheduler decides for.
func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return append(requests(c.awaited.of(o.GetName())), c.externallyScheduled(ctx, "")...)
}

// ofChoice are the sets that a change of what may be chosen concerns: of all
// namespaces for a cluster set, of its own for a binding.
func (c *Controller) ofChoice(ctx context.Context, o client.Object) []reconcile.Request {
	return append(requests(c.awaited.in(o.GetNamespace())), c.externallyScheduled(ctx, o.GetNamespace())...)
}

func requests(sets []types.NamespacedName) (out []reconcile.Request) {
	for _, s := range sets {
		out = append(out, reconcile.Request{NamespacedName: s})
	}
	return out
}

// externallyScheduled are the sets with a placement that another scheduler
// decides for, in a namespace or, if that is empty, anywhere.
func (c *Controller) externallyScheduled(ctx context.Context, namespace string) (out []reconcile.Request) {
	list := &clusterv1beta1.PlacementList{}
	if err := c.client.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{external: "true"}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "find the placements of other schedulers") // the hub is being stopped
		return nil
	}
	for i := range list.Items {
		out = append(out, c.naming(ctx, client.ObjectKeyFromObject(&list.Items[i]))...)
	}
	return out
}

// workChanged lets pass what a lean work has to say.
func workChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*workv1.ManifestWork), e.ObjectNew.(*workv1.ManifestWork)
		return was.UID != is.UID || was.Generation != is.Generation || !maps.Equal(was.Labels, is.Labels) ||
			!apiequality.Semantic.DeepEqual(was.Status, is.Status)
	}}
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
func (c *Controller) naming(ctx context.Context, placement types.NamespacedName) (out []reconcile.Request) {
	sets := &workv1alpha1.ManifestWorkReplicaSetList{}
	if err := c.client.List(ctx, sets, client.InNamespace(placement.Namespace), client.MatchingFields{byPlacement: placement.Name}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "find the ManifestWorkReplicaSets of a placement") // the hub is being stopped
		return nil
	}
	for i := range sets.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&sets.Items[i])})
	}
	return out
}
