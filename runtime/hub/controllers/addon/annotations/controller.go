// Package annotations gives the add-ons of a cluster what the cluster's annotations
// for add-ons say, whenever these change. The controller that installs an add-on
// copies them at first.
package annotations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Controller reconciles the annotations of a cluster's add-ons.
//
// It acts on changes alone, as upstream: an annotation that a user gives to an
// add-on stays until the cluster's own of that key changes. Upstream removes then
// all that the cluster does not have, among them where an add-on is hosted, and the
// values of its chart. Here only those go that the cluster had before.
type Controller struct {
	client client.Client
	// live reads from the server: the cache may not have an add-on yet that was just
	// installed.
	live client.Reader

	mu sync.Mutex
	// changed are the keys of annotations that have changed, by cluster.
	changed map[string]sets.Set[string]
}

// NewController makes the controller. live reads past the cache.
func NewController(c client.Client, live client.Reader) *Controller {
	return &Controller{client: c, live: live, changed: map[string]sets.Set[string]{}}
}

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("addon-annotations").
		Watches(&clusterv1.ManagedCluster{}, handler.Funcs{
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				if c.Note(e.ObjectNew.GetName(), e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) {
					queue.Add(watch.Request(e.ObjectNew.GetName()))
				}
			},
		}).
		Complete(patch.RetryConflicts(c))
}

// Note notes how the annotations of a cluster have changed, and reports whether that
// concerns its add-ons.
func (c *Controller) Note(cluster string, was, is map[string]string) bool {
	before, after := addons.Annotations(was), addons.Annotations(is)
	keys := sets.Set[string]{}
	for key, value := range before {
		if now, there := after[key]; !there || now != value {
			keys.Insert(key)
		}
	}
	for key := range after {
		if _, there := before[key]; !there {
			keys.Insert(key)
		}
	}
	if len(keys) == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed[cluster] = keys.Union(c.changed[cluster])
	return true
}

func (c *Controller) take(cluster string) sets.Set[string] {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := c.changed[cluster]
	delete(c.changed, cluster)
	return keys
}

func (c *Controller) putBack(cluster string, keys sets.Set[string]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed[cluster] = keys.Union(c.changed[cluster])
}

// Reconcile passes the annotations that have changed on to the cluster's add-ons.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	keys := c.take(r.Name)
	if len(keys) == 0 {
		return reconcile.Result{}, nil
	}
	err := c.pass(ctx, r, keys)
	if err != nil {
		c.putBack(r.Name, keys)
	}
	return reconcile.Result{}, err
}

func (c *Controller) pass(ctx context.Context, r reconcile.Request, keys sets.Set[string]) error {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, r.NamespacedName, mc); err != nil {
		return client.IgnoreNotFound(err)
	}
	list := &v1alpha1.ManagedClusterAddOnList{}
	if err := c.live.List(ctx, list, client.InNamespace(mc.Name)); err != nil {
		return fmt.Errorf("list the add-ons of the cluster %s: %w", mc.Name, err)
	}
	var problems []error
	for i := range list.Items {
		problems = append(problems, c.report(ctx, &list.Items[i], mc.Annotations, keys))
	}
	return errors.Join(problems...)
}

// report changes the annotations of an add-on that is installed by placements. Of one
// that is installed by hand, its user decides.
func (c *Controller) report(ctx context.Context, a *v1alpha1.ManagedClusterAddOn, cluster map[string]string, keys sets.Set[string]) error {
	definition, err := addons.Definition(ctx, c.client, a.Name)
	if err != nil || definition == nil || definition.Spec.InstallStrategy.Type != v1alpha1.InstallStrategyPlacements || !a.DeletionTimestamp.IsZero() {
		return err
	}
	_, err = patch.Object(ctx, c.client, a, func() bool {
		want := maps.Clone(a.Annotations)
		if want == nil {
			want = map[string]string{}
		}
		for key := range keys {
			if value, there := cluster[key]; there {
				want[key] = value
			} else {
				delete(want, key)
			}
		}
		changed := !maps.Equal(want, a.Annotations)
		a.Annotations = want
		return changed
	})
	if err != nil {
		return fmt.Errorf("annotate the add-on %s as the cluster %s: %w", a.Name, a.Namespace, err)
	}
	return nil
}
