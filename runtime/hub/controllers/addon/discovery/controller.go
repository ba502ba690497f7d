// Package discovery shows on each ManagedCluster, in labels, which add-ons it has
// and how they are, so that placements can choose by them.
package discovery

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// The values of the labels.
const (
	available   = "available"
	unhealthy   = "unhealthy"
	unreachable = "unreachable"
)

// Controller reconciles the add-on labels of ManagedClusters.
type Controller struct {
	client client.Client
}

// NewController makes the controller.
func NewController(c client.Client) *Controller { return &Controller{client: c} }

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	appears := watch.Only(watch.Created, watch.Updated)
	return builder.ControllerManagedBy(m).
		Named("addon-discovery").
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(appears, watch.Changed(clusterChanged))).
		Watches(&addonv1alpha1.ManagedClusterAddOn{}, watch.ClusterOfNamespace(),
			builder.WithPredicates(watch.Changed(addOnChanged))).
		Complete(patch.RetryConflicts(c))
}

// clusterChanged selects changes of labels by others, and the first report.
func clusterChanged(was, is *clusterv1.ManagedCluster) bool {
	return !maps.Equal(was.Labels, is.Labels) || reported(was) != reported(is)
}

func addOnChanged(was, is *addonv1alpha1.ManagedClusterAddOn) bool {
	return value(was) != value(is) || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()
}

// Reconcile brings the labels of one cluster in line with its add-ons. A cluster
// that has never reported keeps what it has.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, r.NamespacedName, mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !mc.DeletionTimestamp.IsZero() || !reported(mc) || cluster.IsReserved(mc.Name) {
		return reconcile.Result{}, nil
	}
	addOns := &addonv1alpha1.ManagedClusterAddOnList{}
	if err := c.client.List(ctx, addOns, client.InNamespace(mc.Name), client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the add-ons of the cluster %s: %w", mc.Name, err)
	}
	want, tooLong := labels(mc.Labels, addOns.Items)
	if len(tooLong) > 0 {
		log.FromContext(ctx).Info("no label tells of these add-ons, as their names are too long for one", "cluster", mc.Name, "addons", tooLong)
	}
	_, err := patch.Object(ctx, c.client, mc, func() bool {
		changed := !maps.Equal(want, mc.Labels)
		mc.Labels = want
		return changed
	})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("label the cluster %s with its add-ons: %w", mc.Name, err)
	}
	return reconcile.Result{}, nil
}

func reported(mc *clusterv1.ManagedCluster) bool {
	return meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable) != nil
}

// labels are the labels that a cluster should have: new ones for its add-ons, and
// the others as they are. tooLong are add-ons whose label could not
// be one: their names may be longer than what fits behind the prefix.
func labels(have map[string]string, addOns []addonv1alpha1.ManagedClusterAddOn) (want map[string]string, tooLong []string) {
	for k, v := range have {
		if !strings.HasPrefix(k, cluster.AddOnFeatureLabelPrefix) {
			set(&want, k, v)
		}
	}
	for i := range addOns {
		a := &addOns[i]
		if !a.DeletionTimestamp.IsZero() {
			continue
		}
		key := cluster.AddOnFeatureLabelPrefix + a.Name
		if len(validation.IsQualifiedName(key)) > 0 {
			tooLong = append(tooLong, a.Name)
			continue
		}
		set(&want, key, value(a))
	}
	return want, tooLong
}

func set(m *map[string]string, k, v string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[k] = v
}

// value is the label's value for an add-on.
func value(a *addonv1alpha1.ManagedClusterAddOn) string {
	c := meta.FindStatusCondition(a.Status.Conditions, addon.ConditionAvailable)
	switch {
	case c == nil:
		return unreachable
	case c.Status == metav1.ConditionTrue:
		return available
	case c.Status == metav1.ConditionFalse:
		return unhealthy
	}
	return unreachable
}
