// Package clusterprofile presents the clusters of a set, as ClusterProfiles, in
// every namespace that the set is bound to.
package clusterprofile

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Controller reconciles ClusterProfiles, each named as its cluster.
type Controller struct {
	client client.Client
	events events.EventRecorder
}

// NewController makes the controller.
func NewController(c client.Client, recorder events.EventRecorder) *Controller {
	return &Controller{client: c, events: recorder}
}

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	name := func(o client.Object) []string { return []string{o.GetName()} }
	if err := m.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.ClusterProfile{}, byName, name); err != nil {
		return err
	}
	return builder.ControllerManagedBy(m).
		Named("clusterprofile").
		For(&v1alpha1.ClusterProfile{}).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.profilesOfCluster),
			builder.WithPredicates(watch.Changed(clusterChanged))).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.profilesOfSet),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1beta2.ManagedClusterSetBinding{}, handler.EnqueueRequestsFromMapFunc(c.profilesOfBinding)).
		Complete(patch.RetryConflicts(c))
}

// Reconcile brings one profile in line with its cluster. There is one while the
// cluster is a member of a set that is bound in the namespace. Profiles that
// other cluster managers keep are left alone.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	profile := &v1alpha1.ClusterProfile{}
	err := c.client.Get(ctx, r.NamespacedName, profile)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	exists := err == nil
	mc, err := c.member(ctx, r)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case exists && !ours(profile):
		c.warnOfAnother(ctx, mc, profile)
		return reconcile.Result{}, nil
	case mc == nil && exists:
		return reconcile.Result{}, c.remove(ctx, profile)
	case mc == nil:
		return reconcile.Result{}, nil
	case !exists:
		return reconcile.Result{}, c.create(ctx, r.Namespace, mc)
	case !profile.DeletionTimestamp.IsZero():
		return reconcile.Result{}, nil // its deletion leads here again
	}
	if err := c.update(ctx, profile, mc); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, c.report(ctx, profile, mc)
}

// member returns the cluster of a profile, or nil when the profile should not
// be.
func (c *Controller) member(ctx context.Context, r reconcile.Request) (*clusterv1.ManagedCluster, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: r.Name}, mc); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !mc.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	bindings := &clusterv1beta2.ManagedClusterSetBindingList{}
	if err := c.client.List(ctx, bindings, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the bindings of cluster sets in %s: %w", r.Namespace, err)
	}
	sets := &clusterv1beta2.ManagedClusterSetList{}
	if err := c.client.List(ctx, sets, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the cluster sets: %w", err)
	}
	if !isMember(mc, sets.Items, boundSets(bindings.Items)) {
		return nil, nil
	}
	return mc, nil
}

func (c *Controller) create(ctx context.Context, namespace string, mc *clusterv1.ManagedCluster) error {
	profile := &v1alpha1.ClusterProfile{}
	profile.Namespace, profile.Name = namespace, mc.Name
	complete(profile, mc)
	err := c.client.Create(ctx, profile)
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // the cache is behind, or the namespace is gone or going
	case err != nil:
		return fmt.Errorf("create the ClusterProfile %s/%s: %w", namespace, mc.Name, err)
	}
	return c.report(ctx, profile, mc)
}

func (c *Controller) update(ctx context.Context, profile *v1alpha1.ClusterProfile, mc *clusterv1.ManagedCluster) error {
	_, err := patch.Object(ctx, c.client, profile, func() bool {
		before := profile.DeepCopy()
		complete(profile, mc)
		return !apiequality.Semantic.DeepEqual(before, profile)
	})
	return patch.Explain(err, "update the ClusterProfile %s", client.ObjectKeyFromObject(profile))
}

func (c *Controller) report(ctx context.Context, profile *v1alpha1.ClusterProfile, mc *clusterv1.ManagedCluster) error {
	_, err := patch.Status(ctx, c.client, profile, func() bool {
		before := profile.Status.DeepCopy()
		report(&profile.Status, mc)
		return !apiequality.Semantic.DeepEqual(*before, profile.Status)
	})
	return patch.Explain(err, "report the cluster %s in its ClusterProfile in %s", mc.Name, profile.Namespace)
}

func (c *Controller) remove(ctx context.Context, profile *v1alpha1.ClusterProfile) error {
	if !profile.DeletionTimestamp.IsZero() {
		return nil
	}
	return patch.Explain(client.IgnoreNotFound(c.client.Delete(ctx, profile, client.Preconditions{UID: &profile.UID})), "delete the ClusterProfile %s", client.ObjectKeyFromObject(profile))
}

// warnOfAnother explains why a cluster has no profile in a namespace: another
// cluster manager has taken the name.
func (c *Controller) warnOfAnother(ctx context.Context, mc *clusterv1.ManagedCluster, profile *v1alpha1.ClusterProfile) {
	if mc == nil {
		return
	}
	log.FromContext(ctx).Info("a ClusterProfile of another cluster manager is in the way of ours", "namespace", profile.Namespace, "name", profile.Name)
	c.events.Eventf(profile, mc, corev1.EventTypeWarning, "NameTaken", "Create",
		"This profile is kept by another cluster manager, so the managed cluster %s has none in the namespace %s: rename this one, or unbind the cluster's set", mc.Name, profile.Namespace)
}

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

// boundSets are the names of the sets that bindings have bound.
func boundSets(bindings []clusterv1beta2.ManagedClusterSetBinding) []string {
	var names []string
	for i := range bindings {
		b := &bindings[i]
		if b.DeletionTimestamp.IsZero() && meta.IsStatusConditionTrue(b.Status.Conditions, cluster.ConditionBound) {
			names = append(names, b.Spec.ClusterSet)
		}
	}
	return names
}

// isMember reports whether a cluster belongs to one of the sets of these names.
func isMember(mc *clusterv1.ManagedCluster, all []clusterv1beta2.ManagedClusterSet, names []string) bool {
	return slices.ContainsFunc(all, func(s clusterv1beta2.ManagedClusterSet) bool {
		if !slices.Contains(names, s.Name) {
			return false
		}
		selector, err := membership.Selector(&s)
		return err == nil && selector.Matches(labels.Set(mc.Labels))
	})
}

// ours reports whether this hub keeps a profile. The label says so, by which
// clients select. When the label was removed, the spec still does, as it can't be
// changed.
func ours(p *v1alpha1.ClusterProfile) bool {
	return p.Labels[multicluster.ClusterManagerLabel] == multicluster.ClusterManagerName ||
		p.Spec.ClusterManager.Name == multicluster.ClusterManagerName
}

// complete gives a profile what is to be said about a cluster, apart from its
// status, and leaves what others have added.
func complete(p *v1alpha1.ClusterProfile, mc *clusterv1.ManagedCluster) {
	l := maps.Clone(p.Labels)
	if l == nil {
		l = map[string]string{}
	}
	l[multicluster.ClusterManagerLabel] = multicluster.ClusterManagerName
	l[cluster.NameLabel] = mc.Name
	delete(l, multicluster.ClusterSetLabel)
	if set := mc.Labels[cluster.ClusterSetLabel]; set != "" {
		l[multicluster.ClusterSetLabel] = set
	}
	p.Labels = l
	p.Spec.DisplayName = mc.Name
	if p.Spec.ClusterManager.Name == "" {
		p.Spec.ClusterManager.Name = multicluster.ClusterManagerName
	}
}

// report gives a profile the status of a cluster.
func report(s *v1alpha1.ClusterProfileStatus, mc *clusterv1.ManagedCluster) {
	s.Version.Kubernetes = mc.Status.Version.Kubernetes
	s.Properties = properties(mc.Status.ClusterClaims)
	for to, from := range map[string]string{
		multicluster.ConditionControlPlaneHealthy: cluster.ConditionAvailable,
		multicluster.ConditionJoined:              cluster.ConditionJoined,
	} {
		have := meta.FindStatusCondition(mc.Status.Conditions, from)
		if have == nil {
			meta.RemoveStatusCondition(&s.Conditions, to)
			continue
		}
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: to, Status: have.Status, Reason: have.Reason, Message: have.Message})
	}
	// The order must not depend on that of the map.
	slices.SortFunc(s.Conditions, func(a, b metav1.Condition) int {
		if a.Type < b.Type {
			return -1
		}
		return 1
	})
}

// properties are the claims that a profile takes. A cluster's status may name a
// claim twice, and then the first one counts. It may leave out names and values;
// with one such claim the API refuses the whole status of the profile.
func properties(claims []clusterv1.ManagedClusterClaim) []v1alpha1.Property {
	var out []v1alpha1.Property
	seen := sets.Set[string]{}
	for _, c := range claims {
		if c.Name == "" || c.Value == "" || seen.Has(c.Name) {
			continue
		}
		seen.Insert(c.Name)
		out = append(out, v1alpha1.Property{Name: c.Name, Value: c.Value})
	}
	return out
}
