// Package status tells how many clusters each cluster set selects.
package status

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/clusterset/membership"
)

// Controller reconciles the status of ManagedClusterSets.
type Controller struct {
	client client.Client
}

// NewController makes the controller.
func NewController(c client.Client) *Controller { return &Controller{client: c} }

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	relabelled := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
	}}
	return builder.ControllerManagedBy(m).
		Named("clusterset-status").
		// Changes of the status pass, too: a status that was found right in an
		// outdated copy is looked at once more when the copy is up to date.
		For(&clusterv1beta2.ManagedClusterSet{}).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.setsOf), builder.WithPredicates(relabelled)).
		Complete(c)
}

// setsOf finds the sets that select a cluster. For a change of labels it is
// asked about both, the old ones and the new.
func (c *Controller) setsOf(ctx context.Context, o client.Object) []reconcile.Request {
	sets := &clusterv1beta2.ManagedClusterSetList{}
	if err := c.client.List(ctx, sets); err != nil {
		log.FromContext(ctx).Error(err, "list the cluster sets")
		return nil
	}
	var out []reconcile.Request
	for i := range sets.Items {
		if s, err := membership.Selector(&sets.Items[i]); err == nil && s.Matches(labels.Set(o.GetLabels())) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&sets.Items[i])})
		}
	}
	return out
}

// Reconcile counts the members of a set, those that are being deleted included.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	set := &clusterv1beta2.ManagedClusterSet{}
	if err := c.client.Get(ctx, r.NamespacedName, set); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !set.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	selector, err := membership.Selector(set)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	clusters := &clusterv1.ManagedClusterList{}
	if err := c.client.List(ctx, clusters, client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, err
	}
	before := set.DeepCopy()
	if !meta.SetStatusCondition(&set.Status.Conditions, condition(len(clusters.Items))) {
		return reconcile.Result{}, nil
	}
	// Nobody else writes this status, so there is nothing to overwrite.
	if err := c.client.Status().Patch(ctx, set, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("report on the cluster set %s: %w", set.Name, err)
	}
	return reconcile.Result{}, nil
}

func condition(members int) metav1.Condition {
	if members == 0 {
		return metav1.Condition{
			Type: cluster.ConditionClusterSetEmpty, Status: metav1.ConditionTrue,
			Reason: cluster.ReasonNoClusterMatched, Message: cluster.MessageNoClusterMatched,
		}
	}
	return metav1.Condition{
		Type: cluster.ConditionClusterSetEmpty, Status: metav1.ConditionFalse,
		Reason: cluster.ReasonClustersSelected, Message: fmt.Sprintf("%d ManagedClusters selected", members),
	}
}
