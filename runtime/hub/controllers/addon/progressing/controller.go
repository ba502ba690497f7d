// Package progressing says for each ManagedClusterAddOn whether its works have the
// configurations that count, and are done with them.
package progressing

import (
	"context"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Controller reconciles the condition Progressing of ManagedClusterAddOns.
type Controller struct {
	client client.Client
	// works is where works are found.
	works client.Reader
	clock clock.PassiveClock
}

// NewController makes the controller.
func NewController(c client.Client, clk clock.PassiveClock) *Controller {
	return &Controller{client: c, works: c, clock: clk}
}

// Reconcile reports on one ManagedClusterAddOn.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	a := &v1alpha1.ManagedClusterAddOn{}
	if err := c.client.Get(ctx, r.NamespacedName, a); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	definition, err := addons.Definition(ctx, c.client, a.Name)
	if err != nil || definition == nil || configs.SelfManaged(definition) {
		return reconcile.Result{}, err
	}
	works, err := c.worksOf(ctx, a)
	if err != nil {
		return reconcile.Result{}, err
	}
	_, err = patch.Status(ctx, c.client, a, func() bool {
		before := a.Status.DeepCopy()
		report(&a.Status, decide(a, works), c.clock.Now())
		return !apiequality.Semantic.DeepEqual(*before, a.Status)
	})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("report how the add-on %s of the cluster %s progresses: %w", a.Name, a.Namespace, err)
	}
	return reconcile.Result{}, nil
}

// report puts the condition into a status. When it is completed, what was wanted is
// what was applied.
//
// Rollouts count from the time of the condition: how long an add-on may take, and how
// long it has been well. Upstream's moves only with the condition's status, so an
// add-on that is done with a new configuration before anybody has seen it at work, or
// whose first manifests are applied at once, has been well since an earlier time.
// Here the time moves with the reason, too, and with what was applied.
func report(status *v1alpha1.ManagedClusterAddOnStatus, condition metav1.Condition, now time.Time) {
	have := meta.FindStatusCondition(status.Conditions, addon.ConditionProgressing)
	moved := have != nil && have.Reason != condition.Reason
	if condition.Reason == addon.ReasonCompleted {
		for i := range status.ConfigReferences {
			r := &status.ConfigReferences[i]
			moved = moved || !apiequality.Semantic.DeepEqual(r.LastAppliedConfig, r.DesiredConfig)
			r.LastAppliedConfig = r.DesiredConfig.DeepCopy()
		}
	}
	condition.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(&status.Conditions, condition)
	if moved {
		meta.FindStatusCondition(status.Conditions, addon.ConditionProgressing).LastTransitionTime = condition.LastTransitionTime
	}
}

// worksOf are the works of an add-on in a cluster, and of a hosted one those in its
// hosting cluster, too. Nobody may change them.
func (c *Controller) worksOf(ctx context.Context, a *v1alpha1.ManagedClusterAddOn) ([]*workv1.ManifestWork, error) {
	own, err := c.list(ctx, a.Namespace, a.Name, "")
	if host := a.Annotations[addon.HostingClusterAnnotation]; err == nil && host != "" {
		var hosted []*workv1.ManifestWork
		hosted, err = c.list(ctx, host, a.Name, a.Namespace)
		own = append(own, hosted...)
	}
	if err != nil {
		return nil, fmt.Errorf("list the works of the add-on %s of the cluster %s: %w", a.Name, a.Namespace, err)
	}
	return own, nil
}

// list lists the works of an add-on in a namespace: those of the namespace's own
// add-on, or those that are hosted there for another namespace's.
func (c *Controller) list(ctx context.Context, namespace, name, hostedFor string) ([]*workv1.ManifestWork, error) {
	list := &workv1.ManifestWorkList{}
	err := c.works.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{cluster.AddOnNameLabel: name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	var out []*workv1.ManifestWork
	for i := range list.Items {
		if list.Items[i].Labels[addon.AddOnNamespaceLabel] == hostedFor {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}
