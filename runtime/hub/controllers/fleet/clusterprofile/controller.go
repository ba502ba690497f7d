// Package clusterprofile presents the clusters of a set, as ClusterProfiles, in
// every namespace that the set is bound to.
package clusterprofile

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
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
	if err != nil {
		return fmt.Errorf("update the ClusterProfile %s: %w", client.ObjectKeyFromObject(profile), err)
	}
	return nil
}

func (c *Controller) report(ctx context.Context, profile *v1alpha1.ClusterProfile, mc *clusterv1.ManagedCluster) error {
	_, err := patch.Status(ctx, c.client, profile, func() bool {
		before := profile.Status.DeepCopy()
		report(&profile.Status, mc)
		return !apiequality.Semantic.DeepEqual(*before, profile.Status)
	})
	if err != nil {
		return fmt.Errorf("report the cluster %s in its ClusterProfile in %s: %w", mc.Name, profile.Namespace, err)
	}
	return nil
}

func (c *Controller) remove(ctx context.Context, profile *v1alpha1.ClusterProfile) error {
	if !profile.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := c.client.Delete(ctx, profile, client.Preconditions{UID: &profile.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the ClusterProfile %s: %w", client.ObjectKeyFromObject(profile), err)
	}
	return nil
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
