// Package taint keeps workloads away from clusters that are not available.
package taint

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Controller reconciles the taints of ManagedClusters.
type Controller struct {
	client client.Client
}

// NewController makes the controller.
func NewController(c client.Client) *Controller { return &Controller{client: c} }

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("taint").For(&clusterv1.ManagedCluster{}).Complete(patch.RetryConflicts(c))
}

// Reconcile adds and removes the taints that follow from a cluster's
// availability. Admission stamps them with the time.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, r.NamespacedName, mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !mc.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	_, err := patch.Object(ctx, c.client, mc, func() bool {
		want := taints(mc.Spec.Taints, mc.Status.Conditions)
		if slices.EqualFunc(want, mc.Spec.Taints, same) {
			return false
		}
		mc.Spec.Taints = want
		return true
	})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("taint the cluster %s: %w", mc.Name, err)
	}
	return reconcile.Result{}, nil
}

func same(a, b clusterv1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// taints is the list of taints that a cluster should have: those that others
// set, as they are, and of the hub's two the one that its condition calls for.
func taints(have []clusterv1.Taint, conditions []metav1.Condition) []clusterv1.Taint {
	key := cluster.UnreachableTaint
	if c := meta.FindStatusCondition(conditions, cluster.ConditionAvailable); c != nil {
		switch c.Status {
		case metav1.ConditionTrue:
			key = ""
		case metav1.ConditionFalse:
			key = cluster.UnavailableTaint
		}
	}
	want := clusterv1.Taint{Key: key, Effect: clusterv1.TaintEffectNoSelect}
	out := make([]clusterv1.Taint, 0, len(have)+1)
	found := key == ""
	for _, t := range have {
		switch {
		case t.Key != cluster.UnreachableTaint && t.Key != cluster.UnavailableTaint:
			out = append(out, t)
		case same(t, want) && !found:
			out, found = append(out, t), true
		}
	}
	if !found {
		out = append(out, want)
	}
	return out
}
