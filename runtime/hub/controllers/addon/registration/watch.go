package registration

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	wire "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// workers is how many add-ons are reconciled at a time.
const workers = 5

// Register adds the controller to a manager. Its cache needs addons.Index.
func (c *Controller) Register(m manager.Manager) error {
	labelled, err := addons.NewCache(m, addon.TemplateLabel, &rbacv1.RoleBinding{})
	if err != nil {
		return err
	}
	c.bindings = labelled
	appears := watch.Only(watch.Created, watch.Updated)
	b := builder.ControllerManagedBy(m).
		Named("addon-registration").
		For(&v1alpha1.ManagedClusterAddOn{}, builder.WithPredicates(watch.Changed(addOnChanged))).
		Watches(&v1alpha1.ClusterManagementAddOn{}, handler.EnqueueRequestsFromMapFunc(c.ofDefinition),
			builder.WithPredicates(appears, watch.Changed(managerChanged))).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster),
			builder.WithPredicates(watch.Changed(acceptanceChanged))).
		// What others change or delete, and what has outlived its add-on.
		WatchesRawSource(source.Kind[client.Object](labelled, &rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(ofBinding)))
	b = addons.WatchConfigurations(b, c.client)
	return b.WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(patch.RetryConflicts(c))
}

// addOnChanged selects changes of all that a registration depends on, and of what is
// written of it.
func addOnChanged(was, is *v1alpha1.ManagedClusterAddOn) bool {
	before, after := was.Status, is.Status
	return was.UID != is.UID || !apiequality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences) ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
		before.Namespace != after.Namespace || before.KubeClientDriver != after.KubeClientDriver ||
		!apiequality.Semantic.DeepEqual(before.Registrations, after.Registrations) ||
		!apiequality.Semantic.DeepEqual(before.ConfigReferences, after.ConfigReferences) ||
		conditionChanged(was, is, wire.ConditionRegistrationApplied) || conditionChanged(was, is, wire.ConditionTokenInfrastructureReady)
}

func conditionChanged(was, is *v1alpha1.ManagedClusterAddOn, which string) bool {
	return !apiequality.Semantic.DeepEqual(meta.FindStatusCondition(was.Status.Conditions, which), meta.FindStatusCondition(is.Status.Conditions, which))
}

func managerChanged(was, is *v1alpha1.ClusterManagementAddOn) bool {
	return was.UID != is.UID || configs.FromTemplate(was) != configs.FromTemplate(is)
}

func (c *Controller) ofDefinition(ctx context.Context, o client.Object) []reconcile.Request {
	return addons.RequestsInClusters(ctx, c.client, o.GetName())
}

// ofBinding is the add-on of a binding: in one cluster, or in all that share it.
func ofBinding(_ context.Context, o client.Object) []reconcile.Request {
	b, ok := o.(*rbacv1.RoleBinding)
	if !ok || !isOf(b, b.Labels[cluster.AddOnNameLabel]) {
		return nil
	}
	key := types.NamespacedName{Name: b.Labels[cluster.AddOnNameLabel]}
	if isOwned(b) {
		key.Namespace = b.Namespace
	}
	return []reconcile.Request{{NamespacedName: key}}
}

func acceptanceChanged(was, is *clusterv1.ManagedCluster) bool {
	return was.Spec.AcceptsClient() != is.Spec.AcceptsClient()
}

func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return watch.Matching[client.Object](ctx, c.client, &v1alpha1.ManagedClusterAddOnList{}, nil, client.InNamespace(o.GetName()))
}
