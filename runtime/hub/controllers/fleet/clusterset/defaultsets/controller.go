// Package defaultsets keeps the two cluster sets that every hub has: the default
// set, for clusters that are in no other, and the global one, for all.
package defaultsets

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Controller reconciles the default and the global set.
type Controller struct {
	client client.Client
}

// NewController makes the controller.
func NewController(c client.Client) *Controller { return &Controller{client: c} }

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	atStart := source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		for name := range selectors() {
			q.Add(watch.Request(name))
		}
		return nil
	})
	return builder.ControllerManagedBy(m).
		Named("clusterset-defaults").
		For(&clusterv1beta2.ManagedClusterSet{}, builder.WithPredicates(watch.When(isDefault))).
		WatchesRawSource(atStart).
		Complete(patch.RetryConflicts(c))
}

func isDefault(set *clusterv1beta2.ManagedClusterSet) bool {
	_, ok := selectors()[set.Name]
	return ok
}

// selectors are how the sets select their members.
func selectors() map[string]clusterv1beta2.ManagedClusterSelector {
	return map[string]clusterv1beta2.ManagedClusterSelector{
		cluster.DefaultSet: {SelectorType: clusterv1beta2.ExclusiveClusterSetLabel},
		cluster.GlobalSet:  {SelectorType: clusterv1beta2.LabelSelector, LabelSelector: &metav1.LabelSelector{}},
	}
}

// Reconcile makes a set that is missing, and rolls back how it selects its
// members unless an annotation says to leave it.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	want, ours := selectors()[r.Name]
	if !ours {
		return reconcile.Result{}, nil
	}
	set := &clusterv1beta2.ManagedClusterSet{}
	err := c.client.Get(ctx, r.NamespacedName, set)
	switch {
	case apierrors.IsNotFound(err):
		set = &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: clusterv1beta2.ManagedClusterSetSpec{ClusterSelector: want}}
		if err := c.client.Create(ctx, set); err != nil && !apierrors.IsAlreadyExists(err) {
			return reconcile.Result{}, fmt.Errorf("make the cluster set %s: %w", r.Name, err)
		}
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, err
	case !set.DeletionTimestamp.IsZero(), set.Annotations[cluster.AutoUpdateAnnotation] == "false":
		return reconcile.Result{}, nil
	case apiequality.Semantic.DeepEqual(set.Spec.ClusterSelector, want):
		return reconcile.Result{}, nil
	}
	set.Spec.ClusterSelector = want
	if err := c.client.Update(ctx, set); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("roll back the selector of the cluster set %s: %w", r.Name, err)
	}
	return reconcile.Result{}, nil
}
