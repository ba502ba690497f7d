package clusterprofile

import (
	"context"
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
)

// byName is the index of profiles by their names, which are clusters'.
const byName = "metadata.name"

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	name := func(o client.Object) []string { return []string{o.GetName()} }
	if err := m.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.ClusterProfile{}, byName, name); err != nil {
		return err
	}
	return builder.ControllerManagedBy(m).
		Named("clusterprofile").
		For(&v1alpha1.ClusterProfile{}).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.profilesOfCluster), builder.WithPredicates(clusterChanged)).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.profilesOfSet), builder.WithPredicates(specChanged)).
		Watches(&clusterv1beta2.ManagedClusterSetBinding{}, handler.EnqueueRequestsFromMapFunc(c.profilesOfBinding)).
		Complete(c)
}

// clusterChanged lets pass what a profile shows or depends on.
var clusterChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*clusterv1.ManagedCluster), e.ObjectNew.(*clusterv1.ManagedCluster)
		var before, after v1alpha1.ClusterProfileStatus
		report(&before, was)
		report(&after, is)
		for i := range before.Conditions {
			before.Conditions[i].LastTransitionTime.Reset()
		}
		for i := range after.Conditions {
			after.Conditions[i].LastTransitionTime.Reset()
		}
		return !maps.Equal(was.Labels, is.Labels) ||
			was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
			!apiequality.Semantic.DeepEqual(before, after)
	},
}

var specChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() },
}

// requests collects profiles, each once.
type requests map[reconcile.Request]struct{}

func (r requests) add(namespace, name string) {
	r[reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}] = struct{}{}
}

func (r requests) list() []reconcile.Request {
	out := make([]reconcile.Request, 0, len(r))
	for k := range r {
		out = append(out, k)
	}
	return out
}

// profilesOfCluster are those that a cluster has, and those that it should have.
func (c *Controller) profilesOfCluster(ctx context.Context, o client.Object) []reconcile.Request {
	mc := o.(*clusterv1.ManagedCluster)
	found := requests{}
	c.existing(ctx, found, client.MatchingFields{byName: mc.Name})
	sets, bindings := &clusterv1beta2.ManagedClusterSetList{}, &clusterv1beta2.ManagedClusterSetBindingList{}
	c.list(ctx, sets)
	c.list(ctx, bindings)
	for i := range bindings.Items {
		if isMember(mc, sets.Items, boundSets(bindings.Items[i:i+1])) {
			found.add(bindings.Items[i].Namespace, mc.Name)
		}
	}
	return found.list()
}

// profilesOfBinding are all of a binding's namespace, and those that the
// members of its set should have there.
func (c *Controller) profilesOfBinding(ctx context.Context, o client.Object) []reconcile.Request {
	b := o.(*clusterv1beta2.ManagedClusterSetBinding)
	found := requests{}
	c.existing(ctx, found, client.InNamespace(b.Namespace))
	set := &clusterv1beta2.ManagedClusterSet{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: b.Spec.ClusterSet}, set); err == nil {
		c.members(ctx, found, set, b.Namespace)
	}
	return found.list()
}

// profilesOfSet are those of the namespaces that a set is bound to.
func (c *Controller) profilesOfSet(ctx context.Context, o client.Object) []reconcile.Request {
	set := o.(*clusterv1beta2.ManagedClusterSet)
	found := requests{}
	bindings := &clusterv1beta2.ManagedClusterSetBindingList{}
	c.list(ctx, bindings)
	for i := range bindings.Items {
		if b := &bindings.Items[i]; b.Spec.ClusterSet == set.Name {
			c.existing(ctx, found, client.InNamespace(b.Namespace))
			c.members(ctx, found, set, b.Namespace)
		}
	}
	return found.list()
}

func (c *Controller) existing(ctx context.Context, found requests, options ...client.ListOption) {
	profiles := &v1alpha1.ClusterProfileList{}
	c.list(ctx, profiles, options...)
	for i := range profiles.Items {
		found.add(profiles.Items[i].Namespace, profiles.Items[i].Name)
	}
}

func (c *Controller) members(ctx context.Context, found requests, set *clusterv1beta2.ManagedClusterSet, namespace string) {
	selector, err := membership.Selector(set)
	if err != nil {
		return
	}
	clusters := &clusterv1.ManagedClusterList{}
	c.list(ctx, clusters, client.MatchingLabelsSelector{Selector: selector})
	for i := range clusters.Items {
		found.add(namespace, clusters.Items[i].Name)
	}
}

// list reads from the cache, which fails only when the hub is being stopped.
func (c *Controller) list(ctx context.Context, list client.ObjectList, options ...client.ListOption) {
	if err := c.client.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "find the profiles that a change concerns")
	}
}
