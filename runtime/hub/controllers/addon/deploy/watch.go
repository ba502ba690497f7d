package deploy

import (
	"context"
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/works"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/workcache"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

const (
	// workers is how many add-ons are reconciled at a time.
	workers = 10
	// byHost is the index of ManagedClusterAddOns by their hosting cluster.
	byHost = "addon.host"
	// byHosted is the index of works by the add-on that they are hosted for.
	byHosted = "addon.hosted"
)

// Register adds the controller to a manager. Its cache needs addons.Index.
func (c *Controller) Register(m manager.Manager) error {
	lean, err := workcache.NewCache(m, cluster.AddOnNameLabel, workcache.Keep{Status: reported, Manifests: works.Names})
	if err != nil {
		return err
	}
	hosted := func(o client.Object) []string {
		if namespace := o.GetLabels()[addon.AddOnNamespaceLabel]; namespace != "" {
			return []string{namespace + "/" + o.GetLabels()[cluster.AddOnNameLabel]}
		}
		return nil
	}
	if err := lean.IndexField(context.Background(), &workv1.ManifestWork{}, byHosted, hosted); err != nil {
		return err
	}
	if err := m.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.ManagedClusterAddOn{}, byHost, hostOf); err != nil {
		return err
	}
	c.works = worksReader{Reader: lean, hostedFor: func(a *v1alpha1.ManagedClusterAddOn) client.ListOption {
		return client.MatchingFields{byHosted: a.Namespace + "/" + a.Name}
	}}
	appears := watch.Only(watch.Created, watch.Updated)
	b := builder.ControllerManagedBy(m).
		Named("addon-deploy").
		For(&v1alpha1.ManagedClusterAddOn{}, builder.WithPredicates(appears, watch.Changed(addOnChanged))).
		Watches(&v1alpha1.ClusterManagementAddOn{}, handler.EnqueueRequestsFromMapFunc(c.ofDefinition), builder.WithPredicates(watch.Changed(managerChanged))).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(watch.Changed(clusterChanged))).
		WatchesRawSource(source.Kind[client.Object](lean, &workv1.ManifestWork{}, handler.EnqueueRequestsFromMapFunc(ofWork), watch.Changed(workChanged))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	b = addons.WatchConfigurations(b, c.client)
	return b.Complete(patch.RetryConflicts(c))
}

// reported is what the cache keeps of a work's status: its conditions, what its agent says
// of objects that are moving, why its first object could not be applied, and what is
// reported of its objects.
func reported(status workv1.ManifestWorkStatus) workv1.ManifestWorkStatus {
	var out workv1.ManifestWorkStatus
	for _, condition := range status.Conditions {
		moving := condition.Type == work.ConditionProgressing && condition.Status == metav1.ConditionTrue
		if condition.Type == work.ConditionApplied || condition.Type == work.ConditionAvailable || moving {
			out.Conditions = append(out.Conditions, condition)
		}
	}
	failed := false
	for _, m := range status.ResourceStatus.Manifests {
		applied := meta.FindStatusCondition(m.Conditions, work.ConditionApplied)
		first := applied != nil && applied.Status == "False" && !failed
		if !first && len(m.StatusFeedbacks.Values) == 0 {
			continue
		}
		kept := workv1.ManifestCondition{ResourceMeta: m.ResourceMeta, StatusFeedbacks: m.StatusFeedbacks}
		if first {
			kept.Conditions, failed = append(kept.Conditions, *applied), true
		}
		out.ResourceStatus.Manifests = append(out.ResourceStatus.Manifests, kept)
	}
	return out
}

// addOnChanged selects changes of all that the works depend on. What the hub and the
// agent report of the add-on is not among it, apart from what deploying waits for.
func addOnChanged(was, is *v1alpha1.ManagedClusterAddOn) bool {
	return was.UID != is.UID || was.Generation != is.Generation || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
		!maps.Equal(was.Annotations, is.Annotations) || !slices.Equal(was.Finalizers, is.Finalizers) ||
		registered(was) != registered(is) || configured(was) != configured(is) || was.Status.HealthCheck != is.Status.HealthCheck ||
		!maps.Equal(configs.SpecHashes(was.Status.ConfigReferences), configs.SpecHashes(is.Status.ConfigReferences))
}

func managerChanged(was, is *v1alpha1.ClusterManagementAddOn) bool {
	return was.UID != is.UID || configs.SelfManaged(was) != configs.SelfManaged(is) || configs.FromTemplate(was) != configs.FromTemplate(is)
}

// clusterChanged selects what an add-on's manifests, and what is said of it, depend on.
func clusterChanged(was, is *clusterv1.ManagedCluster) bool {
	return was.UID != is.UID || !maps.Equal(was.Annotations, is.Annotations) || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
		was.Spec.AcceptsClient() != is.Spec.AcceptsClient() || availability(was) != availability(is)
}

// workChanged selects changes of what the cache holds of a work.
func workChanged(was, is client.Object) bool {
	before, ok := was.(*workv1.ManifestWork)
	after, also := is.(*workv1.ManifestWork)
	return ok && also && (before.UID != after.UID || before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(before.Annotations, after.Annotations) || !apiequality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() || !apiequality.Semantic.DeepEqual(before.Status, after.Status))
}

// ofDefinition are an add-on in all of its clusters.
func (c *Controller) ofDefinition(ctx context.Context, o client.Object) []reconcile.Request {
	return addons.RequestsInClusters(ctx, c.client, o.GetName())
}

// ofCluster are the add-ons in a cluster, and those that it hosts for others.
func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	in := func(option client.ListOption) []reconcile.Request {
		return watch.Matching[client.Object](ctx, c.client, &v1alpha1.ManagedClusterAddOnList{}, nil, option)
	}
	return append(in(client.InNamespace(o.GetName())), in(client.MatchingFields{byHost: o.GetName()})...)
}

func hostOf(o client.Object) []string {
	if host := o.GetAnnotations()[addon.HostingClusterAnnotation]; host != "" {
		return []string{host}
	}
	return nil
}

// ofWork is the add-on of a work.
func ofWork(_ context.Context, o client.Object) []reconcile.Request {
	namespace := o.GetNamespace()
	if hostedFor := o.GetLabels()[addon.AddOnNamespaceLabel]; hostedFor != "" {
		namespace = hostedFor
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: o.GetLabels()[cluster.AddOnNameLabel]}}}
}
