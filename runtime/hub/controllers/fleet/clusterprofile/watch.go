package clusterprofile

import (
	"context"
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
)

// byName is the index of profiles by their names, which are clusters'.
const byName = "metadata.name"

// clusterChanged selects changes of what a profile shows or depends on.
func clusterChanged(was, is *clusterv1.ManagedCluster) bool {
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
}

// profiles are the profiles to reconcile, each once.
type profiles = sets.Set[reconcile.Request]

func profile(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// profilesOfCluster are those that a cluster has, and those that it should have.
func (c *Controller) profilesOfCluster(ctx context.Context, o client.Object) []reconcile.Request {
	mc := o.(*clusterv1.ManagedCluster)
	found := profiles{}
	c.existing(ctx, found, client.MatchingFields{byName: mc.Name})
	all, bindings := &clusterv1beta2.ManagedClusterSetList{}, &clusterv1beta2.ManagedClusterSetBindingList{}
	c.list(ctx, all)
	c.list(ctx, bindings)
	for i := range bindings.Items {
		if isMember(mc, all.Items, boundSets(bindings.Items[i:i+1])) {
			found.Insert(profile(bindings.Items[i].Namespace, mc.Name))
		}
	}
	return found.UnsortedList()
}

// profilesOfBinding are all of a binding's namespace, and those that the
// members of its set should have there.
func (c *Controller) profilesOfBinding(ctx context.Context, o client.Object) []reconcile.Request {
	b := o.(*clusterv1beta2.ManagedClusterSetBinding)
	found := profiles{}
	c.existing(ctx, found, client.InNamespace(b.Namespace))
	set := &clusterv1beta2.ManagedClusterSet{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: b.Spec.ClusterSet}, set); err == nil {
		c.members(ctx, found, set, b.Namespace)
	}
	return found.UnsortedList()
}

// profilesOfSet are those of the namespaces that a set is bound to.
func (c *Controller) profilesOfSet(ctx context.Context, o client.Object) []reconcile.Request {
	set := o.(*clusterv1beta2.ManagedClusterSet)
	found := profiles{}
	bindings := &clusterv1beta2.ManagedClusterSetBindingList{}
	c.list(ctx, bindings)
	for i := range bindings.Items {
		if b := &bindings.Items[i]; b.Spec.ClusterSet == set.Name {
			c.existing(ctx, found, client.InNamespace(b.Namespace))
			c.members(ctx, found, set, b.Namespace)
		}
	}
	return found.UnsortedList()
}

func (c *Controller) existing(ctx context.Context, found profiles, options ...client.ListOption) {
	found.Insert(watch.Matching[client.Object](ctx, c.client, &v1alpha1.ClusterProfileList{}, nil, options...)...)
}

func (c *Controller) members(ctx context.Context, found profiles, set *clusterv1beta2.ManagedClusterSet, namespace string) {
	selector, err := membership.Selector(set)
	if err != nil {
		return
	}
	clusters := &clusterv1.ManagedClusterList{}
	c.list(ctx, clusters, client.MatchingLabelsSelector{Selector: selector})
	for i := range clusters.Items {
		found.Insert(profile(namespace, clusters.Items[i].Name))
	}
}

// list reads from the cache, which fails only when the hub is being stopped.
func (c *Controller) list(ctx context.Context, list client.ObjectList, options ...client.ListOption) {
	if err := c.client.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "find the profiles that a change concerns")
	}
}
