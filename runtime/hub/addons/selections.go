package addons

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
)

// Selections are what the placements of add-ons select, for one controller of
// ClusterManagementAddOns.
type Selections struct {
	client  client.Client
	rule    selection.Rule
	awaited selection.Awaited
}

// NewSelections reads selections with a client. The rule says which clusters the
// decisions of placements may name.
func NewSelections(c client.Client, rule selection.Rule) *Selections {
	return &Selections{client: c, rule: rule}
}

// Of are the selections of an add-on's placements, in the order of its spec.
func (s *Selections) Of(ctx context.Context, a *v1alpha1.ClusterManagementAddOn) ([]selection.Placed, error) {
	out := make([]selection.Placed, 0, len(a.Spec.InstallStrategy.Placements))
	var refused []string
	for _, p := range a.Spec.InstallStrategy.Placements {
		placed, err := selection.Place(ctx, s.client, s.rule, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
		if err != nil {
			return nil, err
		}
		for _, r := range placed.Refused {
			refused = append(refused, r.Cluster)
		}
		out = append(out, placed)
	}
	s.awaited.Remember(types.NamespacedName{Name: a.Name}, refused)
	return out, nil
}

// Forget forgets an add-on that has no selections any more.
func (s *Selections) Forget(name string) { s.awaited.Remember(types.NamespacedName{Name: name}, nil) }

// Watch has a controller of ClusterManagementAddOns follow their selections.
func (s *Selections) Watch(b *builder.Builder) *builder.Builder {
	generation := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return b.
		Watches(&clusterv1beta1.Placement{}, handler.EnqueueRequestsFromMapFunc(s.ofPlacement),
			builder.WithPredicates(watch.Changed(selection.PlacementChanged))).
		Watches(&clusterv1beta1.PlacementDecision{}, handler.EnqueueRequestsFromMapFunc(s.ofDecision)).
		// Which clusters a placement may choose. Our own scheduler writes the
		// decisions again then; of other schedulers that is not known.
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(s.ofCluster),
			builder.WithPredicates(watch.Changed(selection.StandingChanged))).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(s.ofChoice), generation).
		Watches(&clusterv1beta2.ManagedClusterSetBinding{}, handler.EnqueueRequestsFromMapFunc(s.ofChoice), generation)
}

func (s *Selections) ofPlacement(ctx context.Context, o client.Object) []reconcile.Request {
	return s.naming(ctx, client.ObjectKeyFromObject(o))
}

func (s *Selections) ofDecision(ctx context.Context, o client.Object) []reconcile.Request {
	return s.naming(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[cluster.PlacementLabel]})
}

// naming are the add-ons that name a placement. There are few add-ons, however many
// clusters they are in.
func (s *Selections) naming(ctx context.Context, placement types.NamespacedName) []reconcile.Request {
	return s.with(ctx, func(p v1alpha1.PlacementStrategy) bool {
		return p.Namespace == placement.Namespace && p.Name == placement.Name
	})
}

// with are the add-ons that one of their placements says something of.
func (s *Selections) with(ctx context.Context, says func(v1alpha1.PlacementStrategy) bool) []reconcile.Request {
	return watch.Matching(ctx, s.client, &v1alpha1.ClusterManagementAddOnList{}, func(a *v1alpha1.ClusterManagementAddOn) bool {
		return slices.ContainsFunc(a.Spec.InstallStrategy.Placements, says)
	})
}

// ofCluster are the add-ons that wait for a cluster, and those that another
// scheduler decides for.
func (s *Selections) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return append(watch.Requests(s.awaited.Of(o.GetName())), s.externallyScheduled(ctx)...)
}

// ofChoice are the add-ons that a change of what may be chosen concerns.
func (s *Selections) ofChoice(ctx context.Context, _ client.Object) []reconcile.Request {
	return append(watch.Requests(s.awaited.In("")), s.externallyScheduled(ctx)...)
}

func (s *Selections) externallyScheduled(ctx context.Context) []reconcile.Request {
	return s.with(ctx, func(p v1alpha1.PlacementStrategy) bool {
		placement := &clusterv1beta1.Placement{}
		key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		return s.client.Get(ctx, key, placement, client.UnsafeDisableDeepCopy) == nil && selection.ScheduledElsewhere(placement)
	})
}
