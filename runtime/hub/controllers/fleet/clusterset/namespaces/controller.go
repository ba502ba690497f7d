// Package namespaces reports to each cluster which namespaces its cluster sets want
// to have in it.
package namespaces

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// eventUpdated is what upstream's controller calls a change of the list in its
// log.
const eventUpdated = "ManagedNamespacesUpdated"

// Controller reconciles the managed namespaces in the status of ManagedClusters.
type Controller struct {
	client client.Client
}

// NewController makes the controller.
func NewController(c client.Client) *Controller { return &Controller{client: c} }

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	appears := watch.Only(watch.Created, watch.Updated)
	wantsNamespaces := watch.Changed(func(was, is *clusterv1beta2.ManagedClusterSet) bool {
		return was.Generation != is.Generation && (hasNamespaces(was) || hasNamespaces(is))
	})
	hasAny := predicate.Or(watch.Only(watch.Updated), watch.When(hasNamespaces))
	return builder.ControllerManagedBy(m).
		Named("clusterset-namespaces").
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(appears, watch.Changed(clusterChanged))).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.membersOf),
			builder.WithPredicates(hasAny, wantsNamespaces)).
		Complete(patch.RetryConflicts(c))
}

// clusterChanged selects changes of the labels and of the list itself: one that
// was found right in an outdated copy is looked at once more when the copy is up
// to date.
func clusterChanged(was, is *clusterv1.ManagedCluster) bool {
	return !maps.Equal(was.Labels, is.Labels) || !apiequality.Semantic.DeepEqual(was.Status.ManagedNamespaces, is.Status.ManagedNamespaces)
}

func hasNamespaces(s *clusterv1beta2.ManagedClusterSet) bool {
	return len(s.Spec.ManagedNamespaces) > 0
}

func (c *Controller) membersOf(ctx context.Context, o client.Object) []reconcile.Request {
	selector, err := membership.Selector(o.(*clusterv1beta2.ManagedClusterSet))
	if err != nil {
		return nil
	}
	return watch.Matching[client.Object](ctx, c.client, &clusterv1.ManagedClusterList{}, nil, client.MatchingLabelsSelector{Selector: selector})
}

// Reconcile gathers the namespaces of all sets that a cluster is in.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, r.NamespacedName, mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !mc.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	sets := &clusterv1beta2.ManagedClusterSetList{}
	if err := c.client.List(ctx, sets, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the cluster sets: %w", err)
	}
	want := wanted(mc, sets.Items)
	written, err := patch.Status(ctx, c.client, mc, func() bool {
		changed := !apiequality.Semantic.DeepEqual(want, mc.Status.ManagedNamespaces)
		mc.Status.ManagedNamespaces = want
		return changed
	})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("tell the cluster %s its managed namespaces: %w", mc.Name, err)
	}
	if !written {
		return reconcile.Result{}, nil
	}
	log.FromContext(ctx).Info("managed namespaces changed", "event", eventUpdated, "cluster", mc.Name, "count", len(want))
	return reconcile.Result{}, nil
}

// wanted lists the namespaces of the sets that a cluster is in, by set and name.
// What the agent reported about one that stays is kept.
func wanted(mc *clusterv1.ManagedCluster, sets []clusterv1beta2.ManagedClusterSet) []clusterv1.ClusterSetManagedNamespaceConfig {
	var out []clusterv1.ClusterSetManagedNamespaceConfig
	for i := range sets {
		set := &sets[i]
		selector, err := membership.Selector(set)
		if err != nil || !set.DeletionTimestamp.IsZero() || !selector.Matches(labels.Set(mc.Labels)) {
			continue
		}
		for _, n := range set.Spec.ManagedNamespaces {
			entry := clusterv1.ClusterSetManagedNamespaceConfig{Name: n.Name, ClusterSet: set.Name}
			for _, have := range mc.Status.ManagedNamespaces {
				if have.Name == n.Name && have.ClusterSet == set.Name {
					entry.Conditions = have.Conditions
				}
			}
			out = append(out, entry)
		}
	}
	slices.SortFunc(out, func(a, b clusterv1.ClusterSetManagedNamespaceConfig) int {
		return cmp.Or(cmp.Compare(a.ClusterSet, b.ClusterSet), cmp.Compare(a.Name, b.Name))
	})
	return out
}
