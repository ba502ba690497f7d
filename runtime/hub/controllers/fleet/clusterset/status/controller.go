// Package status reports how many clusters each cluster set selects.
package status

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Controller reconciles the status of ManagedClusterSets.
type Controller struct {
	client  client.Client
	members *Members
}

// NewController makes the controller, which counts members. It knows of clusters by
// its watches, so it has to be registered before it reconciles.
func NewController(c client.Client, members *Members) *Controller {
	return &Controller{client: c, members: members}
}

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("clusterset-status").
		// Changes of the status pass, too: a status that was found right in an
		// outdated copy is looked at once more when the copy is up to date.
		For(&clusterv1beta2.ManagedClusterSet{}).
		Watches(&clusterv1.ManagedCluster{}, c.clusterEvents(), builder.WithPredicates(watch.Changed(relabelled))).
		Complete(patch.RetryConflicts(c))
}

func relabelled(was, is *clusterv1.ManagedCluster) bool { return !maps.Equal(was.Labels, is.Labels) }

// clusterEvents wakes the sets that have more or fewer members by an event.
func (c *Controller) clusterEvents() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(q queue, sets []string) {
		for _, set := range sets {
			q.Add(watch.Request(set))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			wake(q, c.members.labelled(e.Object.GetName(), e.Object.GetLabels()))
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			wake(q, c.members.labelled(e.ObjectNew.GetName(), e.ObjectNew.GetLabels()))
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			wake(q, c.members.gone(e.Object.GetName()))
		},
	}
}

// Reconcile counts the members of a set, those that are being deleted included.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	set := &clusterv1beta2.ManagedClusterSet{}
	if err := c.client.Get(ctx, r.NamespacedName, set); err != nil {
		if apierrors.IsNotFound(err) {
			c.members.forget(r.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !set.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	selector, err := membership.Selector(set)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	empty := condition(c.members.count(set.Name, selector))
	_, err = patch.Status(ctx, c.client, set, func() bool { return meta.SetStatusCondition(&set.Status.Conditions, empty) }, patch.SoleWriter())
	if err != nil {
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
