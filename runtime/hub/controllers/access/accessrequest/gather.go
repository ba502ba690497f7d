package accessrequest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access/cloud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/workcache"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

const (
	// byCluster, byCloud and byCloudAndCluster are indexes of requests.
	byCluster         = "accessrequest.cluster"
	byCloud           = "accessrequest.cloud"
	byCloudAndCluster = "accessrequest.cloudcluster"
	// byDecision is the index of decisions by the clusters in them.
	byDecision = "accessrequest.decision"
)

func cloudAndCluster(cloud, cluster string) string { return cloud + "/" + cluster }

func index(in client.FieldIndexer) error {
	of := func(value func(*v1alpha1.AccessRequestSpec) string) client.IndexerFunc {
		return func(o client.Object) []string { return []string{value(&o.(*v1alpha1.AccessRequest).Spec)} }
	}
	for _, x := range []struct {
		object client.Object
		name   string
		values client.IndexerFunc
	}{
		{&v1alpha1.AccessRequest{}, byCluster, of(func(s *v1alpha1.AccessRequestSpec) string { return s.ManagedCluster })},
		{&v1alpha1.AccessRequest{}, byCloud, of(func(s *v1alpha1.AccessRequestSpec) string { return s.LogicalCloud })},
		{&v1alpha1.AccessRequest{}, byCloudAndCluster, of(func(s *v1alpha1.AccessRequestSpec) string { return cloudAndCluster(s.LogicalCloud, s.ManagedCluster) })},
		{&clusterv1beta1.PlacementDecision{}, byDecision, func(o client.Object) []string { return clustersIn(o).UnsortedList() }},
	} {
		if err := in.IndexField(context.Background(), x.object, x.name, x.values); err != nil {
			return err
		}
	}
	return nil
}

// clustersIn are the clusters that a decision names.
func clustersIn(o client.Object) sets.Set[string] {
	names := sets.Set[string]{}
	if d, ok := o.(*clusterv1beta1.PlacementDecision); ok {
		for _, x := range d.Status.Decisions {
			names.Insert(x.ClusterName)
		}
	}
	return names
}

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	if err := index(m.GetFieldIndexer()); err != nil {
		return err
	}
	works, err := workcache.NewCache(m, muster.LogicalCloudLabel, workcache.Keep{Status: workcache.Conditions})
	if err != nil {
		return err
	}
	c.works = works
	return builder.ControllerManagedBy(m).
		Named("accessrequest").
		For(&v1alpha1.AccessRequest{}).
		Watches(&v1alpha1.ClusterCredential{}, handler.EnqueueRequestsFromMapFunc(ofCredential)).
		Watches(&v1alpha1.LogicalCloud{}, handler.EnqueueRequestsFromMapFunc(c.ofCloud), builder.WithPredicates(watch.Changed(cloudChanged))).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(watch.Changed(clusterChanged))).
		Watches(&clusterv1beta1.PlacementDecision{}, c.ofDecision()).
		Watches(&clusterv1beta1.Placement{}, handler.EnqueueRequestsFromMapFunc(c.ofPlacement), builder.WithPredicates(watch.Changed(placementChanged))).
		Watches(&clusterv1beta2.ManagedClusterSetBinding{}, handler.EnqueueRequestsFromMapFunc(c.ofPlacement), builder.WithPredicates(watch.Only(watch.Created, watch.Deleted))).
		WatchesRawSource(source.Kind[client.Object](works, &workv1.ManifestWork{}, handler.EnqueueRequestsFromMapFunc(c.ofWork), watch.Changed(workChanged))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(patch.RetryConflicts(c))
}

// requests are those that the options select and that still depend on anything.
func (c *Controller) requests(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	alive := func(r *v1alpha1.AccessRequest) bool { return r.DeletionTimestamp != nil || !r.HasEnded() }
	return watch.Matching(ctx, c.client, &v1alpha1.AccessRequestList{}, alive, options...)
}

func ofCredential(_ context.Context, o client.Object) []reconcile.Request {
	credential, ok := o.(*v1alpha1.ClusterCredential)
	if !ok {
		return nil
	}
	r := credential.Spec.AccessRequest
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}}}
}

func (c *Controller) ofCloud(ctx context.Context, o client.Object) []reconcile.Request {
	return c.requests(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{byCloud: o.GetName()})
}

func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return c.requests(ctx, client.MatchingFields{byCluster: o.GetName()})
}

func (c *Controller) ofPlacement(ctx context.Context, o client.Object) []reconcile.Request {
	return c.requests(ctx, client.InNamespace(o.GetNamespace()))
}

func (c *Controller) ofWork(ctx context.Context, o client.Object) []reconcile.Request {
	namespace, name, _ := strings.Cut(o.GetAnnotations()[muster.LogicalCloudAnnotation], "/")
	return c.requests(ctx, client.InNamespace(namespace), client.MatchingFields{byCloudAndCluster: cloudAndCluster(name, o.GetNamespace())})
}

// ofDecision wakes the requests for the clusters that come into a decision or leave
// it, and no others.
func (c *Controller) ofDecision() handler.EventHandler {
	wake := func(ctx context.Context, namespace string, names sets.Set[string], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for name := range names {
			for _, r := range c.requests(ctx, client.InNamespace(namespace), client.MatchingFields{byCluster: name}) {
				q.Add(r)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			wake(ctx, e.Object.GetNamespace(), clustersIn(e.Object), q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			names := clustersIn(e.ObjectOld).SymmetricDifference(clustersIn(e.ObjectNew))
			if e.ObjectOld.GetLabels()[cluster.PlacementLabel] != e.ObjectNew.GetLabels()[cluster.PlacementLabel] {
				names = clustersIn(e.ObjectOld).Union(clustersIn(e.ObjectNew))
			}
			wake(ctx, e.ObjectNew.GetNamespace(), names, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			wake(ctx, e.Object.GetNamespace(), clustersIn(e.Object), q)
		},
	}
}

// cloudChanged selects what a cloud allows and why it can't be in a cluster.
func cloudChanged(was, is *v1alpha1.LogicalCloud) bool {
	return was.Generation != is.Generation || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
		!apiequality.Semantic.DeepEqual(was.Status.Clusters.Failing, is.Status.Clusters.Failing)
}

// clusterChanged selects what decides about access to a cluster, and where it is.
func clusterChanged(was, is *clusterv1.ManagedCluster) bool {
	available := func(mc *clusterv1.ManagedCluster) bool {
		return meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionAvailable)
	}
	const set = cluster.ClusterSetLabel
	for _, key := range []string{muster.UserAccessAnnotation, muster.EndpointsAnnotation, muster.TunnelAnnotation} {
		if was.Annotations[key] != is.Annotations[key] {
			return true
		}
	}
	return was.Spec.AcceptsClient() != is.Spec.AcceptsClient() || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() || available(was) != available(is) ||
		was.Labels[set] != is.Labels[set] || !apiequality.Semantic.DeepEqual(was.Spec.ManagedClusterClientConfigs, is.Spec.ManagedClusterClientConfigs)
}

// placementChanged selects what shows that a placement's decisions are complete.
func placementChanged(was, is *clusterv1beta1.Placement) bool {
	return was.Status.NumberOfSelectedClusters != is.Status.NumberOfSelectedClusters || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()
}

// workChanged selects changes of the bound keys, and of whether they are applied.
func workChanged(was, is *workv1.ManifestWork) bool {
	return was.Generation != is.Generation || !apiequality.Semantic.DeepEqual(was.Status, is.Status) ||
		was.Annotations[muster.BoundKeysAnnotation] != is.Annotations[muster.BoundKeysAnnotation]
}

// gather reads what a request depends on. It reads of its own cluster only, so
// that it costs the same in clouds of any size.
func (c *Controller) gather(ctx context.Context, r *v1alpha1.AccessRequest) (*facts, error) {
	f := &facts{now: c.clock.Now(), request: r}
	var err error
	if f.hubID, err = c.hub(ctx); err != nil {
		return nil, err
	}
	f.cloud, err = apply.Read(ctx, c.client, client.ObjectKey{Namespace: r.Namespace, Name: r.Spec.LogicalCloud}, &v1alpha1.LogicalCloud{})
	if err != nil {
		return nil, err
	}
	if f.cluster, err = apply.Read(ctx, c.client, client.ObjectKey{Name: r.Spec.ManagedCluster}, &clusterv1.ManagedCluster{}); err != nil {
		return nil, err
	}
	name := client.ObjectKey{Namespace: r.Spec.ManagedCluster, Name: muster.CloudWork(r.Namespace, r.Spec.LogicalCloud)}
	if f.work, err = apply.Read(ctx, c.works, name, &workv1.ManifestWork{}); err != nil {
		return nil, err
	}
	if f.credential, err = c.credential(ctx, f); err != nil {
		return nil, err
	}
	if f.shared, err = c.isShared(ctx, r); err != nil {
		return nil, err
	}
	if f.cloud != nil && f.cluster != nil {
		if f.selected, f.settled, err = c.isSelected(ctx, f.cloud, f.cluster); err != nil {
			return nil, err
		}
	}
	if offline, _ := f.offline(); offline {
		f.heartbeat = c.heartbeat(ctx, r.Spec.ManagedCluster)
	}
	return f, nil
}

// credential reads the credential of a request. One that asks for anything else
// is not the hub's, and is removed.
func (c *Controller) credential(ctx context.Context, f *facts) (*v1alpha1.ClusterCredential, error) {
	r := f.request
	key := client.ObjectKey{Namespace: r.Spec.ManagedCluster, Name: muster.Credential(string(r.UID))}
	have, err := apply.Read(ctx, c.client, key, &v1alpha1.ClusterCredential{})
	if err != nil || have == nil || f.cloud == nil {
		return have, err
	}
	want := wanted(f).Spec
	want.Tunnels = have.Spec.Tunnels // which come and go
	if apiequality.Semantic.DeepEqual(have.Spec, want) {
		return have, nil
	}
	return nil, apply.Delete(ctx, c.client, have)
}

// isShared reports whether another request with the same key has access to the
// cluster by the same cloud.
func (c *Controller) isShared(ctx context.Context, r *v1alpha1.AccessRequest) (bool, error) {
	if r.Status.KeyHash == "" {
		return false, nil
	}
	beside, err := c.beside(ctx, r)
	return slices.ContainsFunc(beside, func(other v1alpha1.AccessRequest) bool {
		key, live := cloud.KeyOf(&other)
		return other.UID != r.UID && live && key.Hash == r.Status.KeyHash
	}), err
}

// beside are the requests for the same cluster of the same cloud. Nobody may change
// them.
func (c *Controller) beside(ctx context.Context, r *v1alpha1.AccessRequest) ([]v1alpha1.AccessRequest, error) {
	list := &v1alpha1.AccessRequestList{}
	err := c.client.List(ctx, list, client.InNamespace(r.Namespace), client.MatchingFields{byCloudAndCluster: cloudAndCluster(r.Spec.LogicalCloud, r.Spec.ManagedCluster)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the access requests for the cluster %s: %w", r.Spec.ManagedCluster, err)
	}
	return list.Items, nil
}

// isSelected reports whether a placement of a cloud selects a cluster that it may
// choose. settled is false while decisions are being written.
func (c *Controller) isSelected(ctx context.Context, lc *v1alpha1.LogicalCloud, mc *clusterv1.ManagedCluster) (selected, settled bool, _ error) {
	decisions := &clusterv1beta1.PlacementDecisionList{}
	if err := c.client.List(ctx, decisions, client.InNamespace(lc.Namespace), client.MatchingFields{byDecision: mc.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return false, false, fmt.Errorf("list the decisions for the cluster %s: %w", mc.Name, err)
	}
	settled = true
	for _, ref := range lc.Spec.Placements {
		p, err := apply.Read(ctx, c.client, client.ObjectKey{Namespace: lc.Namespace, Name: ref.Name}, &clusterv1beta1.Placement{})
		if err != nil {
			return false, false, err
		}
		if p == nil {
			continue
		}
		if !slices.ContainsFunc(decisions.Items, func(d clusterv1beta1.PlacementDecision) bool { return d.Labels[cluster.PlacementLabel] == p.Name }) {
			// Only of a cluster that is in none it matters whether there are more to
			// come.
			s, err := selection.Of(ctx, c.client, lc.Namespace, []string{p.Name})
			if err != nil {
				return false, false, err
			}
			settled = settled && s.Settled
			continue
		}
		from, err := selection.ChoiceOf(ctx, c.client, p)
		if err != nil {
			return false, false, err
		}
		if from.Standing(mc) != selection.Stranger {
			return true, true, nil
		}
	}
	return false, settled, nil
}

// heartbeat says when a cluster's agent was last heard of.
func (c *Controller) heartbeat(ctx context.Context, name string) string {
	lease, err := apply.Read(ctx, c.live, client.ObjectKey{Namespace: name, Name: cluster.LeaseName}, &coordinationv1.Lease{})
	if err != nil || lease == nil || lease.Spec.RenewTime == nil {
		return ""
	}
	return " since " + stamp(lease.Spec.RenewTime.Time)
}
