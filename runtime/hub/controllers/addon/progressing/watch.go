package progressing

import (
	"context"
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/workcache"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// workers is how many add-ons are reconciled at a time.
const workers = 5

// Register adds the controller to a manager. Its cache needs addons.Index.
func (c *Controller) Register(m manager.Manager) error {
	leanWorks, err := workcache.NewCache(m, cluster.AddOnNameLabel, workcache.Keep{Status: reported})
	if err != nil {
		return err
	}
	c.works = leanWorks
	appears := watch.Only(watch.Created, watch.Updated)
	return builder.ControllerManagedBy(m).
		Named("addon-progressing").
		For(&v1alpha1.ManagedClusterAddOn{}, builder.WithPredicates(appears, watch.Changed(addOnChanged))).
		Watches(&v1alpha1.ClusterManagementAddOn{}, handler.EnqueueRequestsFromMapFunc(c.ofDefinition),
			builder.WithPredicates(appears, watch.Changed(managerChanged))).
		WatchesRawSource(source.Kind[client.Object](leanWorks, &workv1.ManifestWork{},
			handler.EnqueueRequestsFromMapFunc(ofWork), watch.Changed(workChanged))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(patch.RetryConflicts(c))
}

// addOnChanged selects changes of all that the condition depends on. How the add-on
// and its agent are is not among it.
func addOnChanged(was, is *v1alpha1.ManagedClusterAddOn) bool {
	const host = addon.HostingClusterAnnotation
	if was.Generation != is.Generation || was.Annotations[host] != is.Annotations[host] {
		return true
	}
	before, after := was.Status.DeepCopy(), is.Status.DeepCopy()
	for _, status := range []*v1alpha1.ManagedClusterAddOnStatus{before, after} {
		kept := status.Conditions[:0]
		for _, condition := range status.Conditions {
			switch condition.Type {
			case addon.ConditionProgressing, addon.ConditionManifestApplied, addon.ConditionHostingManifestApplied:
				kept = append(kept, condition)
			}
		}
		*status = v1alpha1.ManagedClusterAddOnStatus{Conditions: kept, SupportedConfigs: status.SupportedConfigs, ConfigReferences: status.ConfigReferences}
	}
	return !apiequality.Semantic.DeepEqual(before, after)
}

func managerChanged(was, is *v1alpha1.ClusterManagementAddOn) bool {
	return was.UID != is.UID || configs.SelfManaged(was) != configs.SelfManaged(is)
}

func (c *Controller) ofDefinition(ctx context.Context, o client.Object) []reconcile.Request {
	return addons.RequestsInClusters(ctx, c.client, o.GetName())
}

// workChanged selects changes of what the cache holds of a work, and of its
// configurations.
func workChanged(was, is client.Object) bool {
	before, ok := was.(*workv1.ManifestWork)
	after, also := is.(*workv1.ManifestWork)
	return ok && also && (before.UID != after.UID || before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(before.Annotations, after.Annotations) || !apiequality.Semantic.DeepEqual(before.Status, after.Status))
}

// ofWork is the add-on of a work.
func ofWork(_ context.Context, o client.Object) []reconcile.Request {
	namespace := o.GetNamespace()
	if hostedFor := o.GetLabels()[addon.AddOnNamespaceLabel]; hostedFor != "" {
		namespace = hostedFor
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: o.GetLabels()[cluster.AddOnNameLabel]}}}
}
