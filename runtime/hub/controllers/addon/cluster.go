// Package addon has the controllers of add-ons that take no more than a page each: what a
// cluster and its add-ons say of each other (cluster.go), and in which clusters an add-on
// is (install.go). The larger ones have a folder each.
package addon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Annotations gives the add-ons of a cluster what the cluster's annotations for add-ons
// say, whenever these change. The controller that installs an add-on copies them at
// first.
//
// It acts on changes alone, as upstream: an annotation that a user gives to an
// add-on stays until the cluster's own of that key changes. Upstream removes then
// all that the cluster does not have, among them where an add-on is hosted, and the
// values of its chart. Here only those go that the cluster had before.
type Annotations struct {
	client client.Client
	// live reads from the server: the cache may not have an add-on yet that was just
	// installed.
	live client.Reader

	mu sync.Mutex
	// changed are the keys of annotations that have changed, by cluster.
	changed map[string]sets.Set[string]
}

// NewAnnotations makes the controller. live reads past the cache.
func NewAnnotations(c client.Client, live client.Reader) *Annotations {
	return &Annotations{client: c, live: live, changed: map[string]sets.Set[string]{}}
}

// Register adds the controller to a manager.
func (c *Annotations) Register(m manager.Manager) error {
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
func (c *Annotations) Note(cluster string, was, is map[string]string) bool {
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

func (c *Annotations) take(cluster string) sets.Set[string] {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := c.changed[cluster]
	delete(c.changed, cluster)
	return keys
}

func (c *Annotations) putBack(cluster string, keys sets.Set[string]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed[cluster] = keys.Union(c.changed[cluster])
}

// Reconcile passes the annotations that have changed on to the cluster's add-ons.
func (c *Annotations) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
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

func (c *Annotations) pass(ctx context.Context, r reconcile.Request, keys sets.Set[string]) error {
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
func (c *Annotations) report(ctx context.Context, a *v1alpha1.ManagedClusterAddOn, cluster map[string]string, keys sets.Set[string]) error {
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
	return patch.Explain(err, "annotate the add-on %s as the cluster %s", a.Name, a.Namespace)
}

// The values of the labels.
const (
	available   = "available"
	unhealthy   = "unhealthy"
	unreachable = "unreachable"
)

// Discovery shows on each ManagedCluster, in labels, which add-ons it has and how they
// are, so that placements can choose by them, and in an annotation that there are any, so
// that its agent looks after them.
type Discovery struct {
	client client.Client
}

// NewDiscovery makes the controller.
func NewDiscovery(c client.Client) *Discovery { return &Discovery{client: c} }

// Register adds the controller to a manager.
func (c *Discovery) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("addon-discovery").
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(watch.Appears(), watch.Changed(clusterChanged))).
		Watches(&v1alpha1.ManagedClusterAddOn{}, watch.ClusterOfNamespace(),
			builder.WithPredicates(watch.Changed(addOnChanged))).
		Complete(patch.RetryConflicts(c))
}

// clusterChanged selects changes of labels and of the annotation by others, and the first
// report.
func clusterChanged(was, is *clusterv1.ManagedCluster) bool {
	return !maps.Equal(was.Labels, is.Labels) || reported(was) != reported(is) ||
		was.Annotations[muster.AddOnsAnnotation] != is.Annotations[muster.AddOnsAnnotation]
}

func addOnChanged(was, is *v1alpha1.ManagedClusterAddOn) bool {
	return value(was) != value(is) || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()
}

// Reconcile brings the labels and the annotation of one cluster in line with its add-ons.
// A cluster that has never reported keeps what it has.
func (c *Discovery) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, r.NamespacedName, mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !mc.DeletionTimestamp.IsZero() || !reported(mc) || cluster.IsReserved(mc.Name) {
		return reconcile.Result{}, nil
	}
	addOns := &v1alpha1.ManagedClusterAddOnList{}
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
		return announce(mc, len(addOns.Items) > 0) || changed
	})
	return reconcile.Result{}, patch.Explain(err, "label the cluster %s with its add-ons", mc.Name)
}

// announce annotates a cluster if it has add-ons, those that are being deleted included,
// and reports whether that is new.
func announce(mc *clusterv1.ManagedCluster, has bool) (changed bool) {
	have, there := mc.Annotations[muster.AddOnsAnnotation]
	switch {
	case has && have != "true":
		metav1.SetMetaDataAnnotation(&mc.ObjectMeta, muster.AddOnsAnnotation, "true")
	case !has && there:
		delete(mc.Annotations, muster.AddOnsAnnotation)
	default:
		return false
	}
	return true
}

func reported(mc *clusterv1.ManagedCluster) bool {
	return meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable) != nil
}

// labels are the labels that a cluster should have: new ones for its add-ons, and
// the others as they are. tooLong are add-ons whose label could not
// be one: their names may be longer than what fits behind the prefix.
func labels(have map[string]string, addOns []v1alpha1.ManagedClusterAddOn) (want map[string]string, tooLong []string) {
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
func value(a *v1alpha1.ManagedClusterAddOn) string {
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

// Health declares the add-ons of a cluster that has fallen silent unknown, as nobody can
// know how they are.
type Health struct {
	client client.Client
}

// NewHealth makes the controller.
func NewHealth(c client.Client) *Health { return &Health{client: c} }

// Register adds the controller to a manager.
func (c *Health) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("addon-health").
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(watch.When(silent))).
		Watches(&v1alpha1.ManagedClusterAddOn{}, watch.ClusterOfNamespace(), builder.WithPredicates(watch.Appears())).
		Complete(patch.RetryConflicts(c))
}

func silent(mc *clusterv1.ManagedCluster) bool { return unknown(mc) != nil }

// Reconcile gives every add-on of a cluster whose availability is unknown the
// cluster's own condition. Once the cluster is heard of again, its add-ons'
// agents report as before.
func (c *Health) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, r.NamespacedName, mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	condition := unknown(mc)
	if condition == nil || cluster.IsReserved(mc.Name) {
		return reconcile.Result{}, nil
	}
	addOns := &v1alpha1.ManagedClusterAddOnList{}
	if err := c.client.List(ctx, addOns, client.InNamespace(mc.Name)); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the add-ons of the cluster %s: %w", mc.Name, err)
	}
	var problems []error
	for i := range addOns.Items {
		problems = append(problems, c.declare(ctx, &addOns.Items[i], *condition))
	}
	return reconcile.Result{}, errors.Join(problems...)
}

// unknown is the condition of a cluster that has fallen silent, nil for others.
func unknown(mc *clusterv1.ManagedCluster) *metav1.Condition {
	have := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable)
	if have == nil || have.Status != metav1.ConditionUnknown {
		return nil
	}
	return have
}

func (c *Health) declare(ctx context.Context, a *v1alpha1.ManagedClusterAddOn, silent metav1.Condition) error {
	_, err := patch.Status(ctx, c.client, a, func() bool {
		return meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{
			Type: addon.ConditionAvailable, Status: silent.Status, Reason: silent.Reason, Message: silent.Message,
		})
	})
	return patch.Explain(err, "declare the add-on %s of the cluster %s unknown", a.Name, a.Namespace)
}
