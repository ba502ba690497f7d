package token

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

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

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	kinds := []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}}
	made, err := addons.NewCache(m, addon.TokenInfrastructureLabel, kinds...)
	if err != nil {
		return err
	}
	c.made = made
	b := builder.ControllerManagedBy(m).
		Named("addon-token").
		For(&v1alpha1.ManagedClusterAddOn{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return concerned(e.Object) },
			UpdateFunc: func(e event.UpdateEvent) bool { return concerned(e.ObjectOld) || concerned(e.ObjectNew) },
			DeleteFunc: func(e event.DeleteEvent) bool { return concerned(e.Object) },
		}, watch.Changed(addOnChanged))).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster),
			builder.WithPredicates(watch.Changed(clusterChanged)))
	for _, kind := range kinds {
		// What others change or delete, and what has outlived its add-on.
		b = b.WatchesRawSource(source.Kind(made, kind, handler.EnqueueRequestsFromMapFunc(ofObject)))
	}
	return b.WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(patch.RetryConflicts(c))
}

// concerned selects add-ons with tokens, and those that have had them.
func concerned(o client.Object) bool {
	a, ok := o.(*v1alpha1.ManagedClusterAddOn)
	return ok && (wantsToken(a) || meta.FindStatusCondition(a.Status.Conditions, wire.ConditionTokenInfrastructureReady) != nil)
}

func addOnChanged(was, is *v1alpha1.ManagedClusterAddOn) bool {
	const ready = wire.ConditionTokenInfrastructureReady
	return was.UID != is.UID || wantsToken(was) != wantsToken(is) ||
		!apiequality.Semantic.DeepEqual(meta.FindStatusCondition(was.Status.Conditions, ready), meta.FindStatusCondition(is.Status.Conditions, ready))
}

func clusterChanged(was, is *clusterv1.ManagedCluster) bool {
	return was.Spec.AcceptsClient() != is.Spec.AcceptsClient() ||
		!cluster.VoidUntil(was.Annotations).Equal(cluster.VoidUntil(is.Annotations))
}

func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return watch.Matching(ctx, c.client, &v1alpha1.ManagedClusterAddOnList{}, func(a *v1alpha1.ManagedClusterAddOn) bool { return concerned(a) }, client.InNamespace(o.GetName()))
}

func ofObject(_ context.Context, o client.Object) []reconcile.Request {
	if a, ok := of(o); ok {
		return []reconcile.Request{{NamespacedName: a}}
	}
	return nil
}
