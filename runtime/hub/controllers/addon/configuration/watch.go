package configuration

import (
	"context"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// ownConfigs is the index of ManagedClusterAddOns by the configuration objects that
// their specs name, as reference returns them.
const ownConfigs = "spec.configs"

// Register adds the controller to a manager. Its cache needs addons.Index.
func (c *Controller) Register(m manager.Manager) error {
	if err := m.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.ManagedClusterAddOn{}, ownConfigs, configsOf); err != nil {
		return err
	}
	b := builder.ControllerManagedBy(m).
		Named("addon-configuration").
		For(&v1alpha1.ClusterManagementAddOn{}, builder.WithPredicates(watch.Changed(definitionChanged))).
		Watches(&v1alpha1.ManagedClusterAddOn{}, c.paced(), builder.WithPredicates(watch.Changed(addOnChanged)))
	for _, kind := range configs.TemplateKinds() {
		b = b.Watches(newObject(addons.KindOf(kind.Resource)), handler.EnqueueRequestsFromMapFunc(c.naming(kind)),
			builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	}
	return c.selections.Watch(b).Complete(patch.RetryConflicts(c))
}

const (
	// many is how many clusters an add-on is in before its passes are spaced.
	many = 100
	// longestPace is the longest time between two of them.
	longestPace = 2 * time.Second
)

// pace is how long a pass waits for more news of an add-on that is in so many
// clusters: a pass looks at all of them, and each may have several news at a time.
func pace(clusters int) time.Duration {
	if clusters < many {
		return 0
	}
	return min(time.Duration(clusters)*time.Millisecond, longestPace)
}

// paced enqueues the add-on of a ManagedClusterAddOn, at its pace.
func (c *Controller) paced() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(o client.Object, q queue) {
		clusters, _ := c.clusters.Load(o.GetName())
		n, _ := clusters.(int)
		if wait := pace(n); wait > 0 {
			q.AddAfter(watch.Request(o.GetName()), wait)
			return
		}
		q.Add(watch.Request(o.GetName()))
	}
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, e event.CreateEvent, q queue) { add(e.Object, q) },
		UpdateFunc:  func(_ context.Context, e event.UpdateEvent, q queue) { add(e.ObjectNew, q) },
		DeleteFunc:  func(_ context.Context, e event.DeleteEvent, q queue) { add(e.Object, q) },
		GenericFunc: func(_ context.Context, e event.GenericEvent, q queue) { add(e.Object, q) },
	}
}

// definitionChanged selects changes of the spec, of who manages the add-on, and of
// the status, where its manager puts hashes.
func definitionChanged(was, is *v1alpha1.ClusterManagementAddOn) bool {
	return was.Generation != is.Generation || configs.SelfManaged(was) != configs.SelfManaged(is) ||
		!apiequality.Semantic.DeepEqual(was.Status, is.Status)
}

// addOnChanged selects changes of what is wanted of an add-on in a cluster, and of
// how far it is.
func addOnChanged(was, is *v1alpha1.ManagedClusterAddOn) bool {
	return was.Generation != is.Generation || was.UID != is.UID ||
		!apiequality.Semantic.DeepEqual(was.Status.ConfigReferences, is.Status.ConfigReferences) ||
		!apiequality.Semantic.DeepEqual(was.Status.SupportedConfigs, is.Status.SupportedConfigs) ||
		!apiequality.Semantic.DeepEqual(condition(was, addon.ConditionProgressing), condition(is, addon.ConditionProgressing)) ||
		!apiequality.Semantic.DeepEqual(condition(was, addon.ConditionConfigured), condition(is, addon.ConditionConfigured))
}

// condition is one of an add-on, without its message.
func condition(a *v1alpha1.ManagedClusterAddOn, which string) metav1.Condition {
	found := meta.FindStatusCondition(a.Status.Conditions, which)
	if found == nil {
		return metav1.Condition{}
	}
	out := *found
	out.Message = ""
	return out
}

// reference is the value of the index for a configuration object.
func reference(c v1alpha1.AddOnConfig) string {
	return c.Resource + "." + c.Group + "/" + c.Namespace + "/" + c.Name
}

func configsOf(o client.Object) (out []string) {
	for _, c := range o.(*v1alpha1.ManagedClusterAddOn).Spec.Configs {
		out = append(out, reference(c))
	}
	return out
}

// naming returns the add-ons from templates that name a configuration object: as a
// default, for a placement, or for a cluster.
func (c *Controller) naming(kind v1alpha1.ConfigGroupResource) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		object := v1alpha1.AddOnConfig{ConfigGroupResource: kind, ConfigReferent: v1alpha1.ConfigReferent{Namespace: o.GetNamespace(), Name: o.GetName()}}
		out := watch.Matching(ctx, c.client, &v1alpha1.ClusterManagementAddOnList{}, func(a *v1alpha1.ClusterManagementAddOn) bool {
			return configs.FromTemplate(a) && names(a.Spec, object)
		})
		own := watch.Matching[client.Object](ctx, c.client, &v1alpha1.ManagedClusterAddOnList{}, nil,
			client.MatchingFields{ownConfigs: reference(object)})
		for _, r := range own {
			out = append(out, watch.Request(r.Name))
		}
		return out
	}
}

// names reports whether an add-on names a configuration object for many clusters.
func names(spec v1alpha1.ClusterManagementAddOnSpec, object v1alpha1.AddOnConfig) bool {
	return slices.Contains(configs.Defaults(spec), object) || slices.ContainsFunc(spec.InstallStrategy.Placements, func(p v1alpha1.PlacementStrategy) bool {
		return slices.Contains(p.Configs, object)
	})
}
