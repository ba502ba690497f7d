package managedcluster

import (
	"context"
	"fmt"
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// SharedRoles keeps the two cluster roles that every agent is bound to in its cluster's
// namespace, for as long as there are clusters.
type SharedRoles struct {
	client client.Client
	apply  apply.Applier
	labels map[string]string
}

// NewSharedRoles makes the controller. live reads past the cache, and labels are put on
// the roles.
func NewSharedRoles(c client.Client, live client.Reader, labels map[string]string) *SharedRoles {
	return &SharedRoles{client: c, apply: apply.Applier{Client: c, Live: live}, labels: labels}
}

// Register adds the controller to a manager.
func (c *SharedRoles) Register(m manager.Manager) error {
	shared := watch.When(func(r *rbacv1.ClusterRole) bool { return cluster.SharedRole(r.Name) })
	return builder.ControllerManagedBy(m).
		Named("clusterrole").
		Watches(&clusterv1.ManagedCluster{}, watch.Always("shared"),
			builder.WithPredicates(c.clusterComesOrGoes())).
		Watches(&rbacv1.ClusterRole{}, watch.Always("shared"), builder.WithPredicates(shared)).
		Complete(patch.RetryConflicts(c))
}

// clusterComesOrGoes selects deletions, which may be of the last cluster, and new clusters
// while a role is missing. Looking at all clusters for each new one would cost more with
// each of them.
func (c *SharedRoles) clusterComesOrGoes() predicate.Predicate {
	return predicate.And(watch.Only(watch.Created, watch.Deleted), predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return c.lacksRole() },
	})
}

func (c *SharedRoles) lacksRole() bool {
	for _, role := range roles(nil) {
		have := &rbacv1.ClusterRole{}
		key := client.ObjectKeyFromObject(role)
		if c.client.Get(context.Background(), key, have, client.UnsafeDisableDeepCopy) != nil {
			return true
		}
	}
	return false
}

// Reconcile makes the roles when there is a cluster and deletes them when there
// is none.
func (c *SharedRoles) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	clusters := &clusterv1.ManagedClusterList{}
	if err := c.client.List(ctx, clusters, client.Limit(1), client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the clusters: %w", err)
	}
	for _, role := range roles(c.labels) {
		if len(clusters.Items) > 0 {
			if err := c.apply.Apply(ctx, role); err != nil {
				return reconcile.Result{}, err
			}
			continue
		}
		err := c.client.Get(ctx, client.ObjectKeyFromObject(role), &rbacv1.ClusterRole{})
		if apierrors.IsNotFound(err) {
			continue // one that the cache has yet to hear of wakes us when it does
		}
		if err != nil {
			return reconcile.Result{}, err
		}
		if err := apply.Delete(ctx, c.client, role); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, nil
}

// roles are the shared roles.
func roles(extra map[string]string) []*rbacv1.ClusterRole {
	labels := map[string]string{}
	maps.Copy(labels, extra)
	// The empty value keeps the roles within sight of the label selector.
	labels[cluster.NameLabel] = ""
	return []*rbacv1.ClusterRole{
		{ObjectMeta: metav1.ObjectMeta{Name: cluster.RegistrationRole, Labels: labels}, Rules: registrationRules()},
		{ObjectMeta: metav1.ObjectMeta{Name: cluster.WorkRole, Labels: labels}, Rules: workRules()},
	}
}

// NamespaceRules are what agents may do in their cluster's namespace. They may not
// create leases, works or add-ons, nor delete any.
func NamespaceRules() []rbacv1.PolicyRule { return append(registrationRules(), workRules()...) }

func registrationRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "watch", "update"}},
		{APIGroups: []string{addon.GroupName}, Resources: []string{"managedclusteraddons"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{addon.GroupName}, Resources: []string{"managedclusteraddons/status"}, Verbs: []string{"patch", "update"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create"}},
	}
}

func workRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
		{APIGroups: []string{work.GroupName}, Resources: []string{"manifestworks"}, Verbs: []string{"get", "list", "watch", "update", "patch"}},
		{APIGroups: []string{work.GroupName}, Resources: []string{"manifestworks/status"}, Verbs: []string{"patch", "update"}},
	}
}
