package logicalcloud

import (
	"context"
	"maps"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/workcache"
)

const (
	// byPlacement, byRole and byNamespace are indexes of clouds by the placements
	// and AccessRoles that they name, and by their namespace in clusters.
	byPlacement = "logicalcloud.placement"
	byRole      = "logicalcloud.role"
	byNamespace = "logicalcloud.namespace"
	// byCluster is the index of decisions by the clusters in them.
	byCluster = "placementdecision.cluster"
)

// index adds the indexes to a cache.
func index(in client.FieldIndexer) error {
	ofCloud := func(values func(*v1alpha1.LogicalCloud) []string) client.IndexerFunc {
		return func(o client.Object) []string { return values(o.(*v1alpha1.LogicalCloud)) }
	}
	for _, x := range []struct {
		object client.Object
		name   string
		values client.IndexerFunc
	}{
		{&v1alpha1.LogicalCloud{}, byPlacement, ofCloud(placementsOf)},
		{&v1alpha1.LogicalCloud{}, byRole, ofCloud(rolesOf)},
		{&v1alpha1.LogicalCloud{}, byNamespace, ofCloud(func(c *v1alpha1.LogicalCloud) []string { return []string{c.Spec.Namespace.Name} })},
		{&clusterv1beta1.PlacementDecision{}, byCluster, func(o client.Object) (names []string) {
			for _, d := range o.(*clusterv1beta1.PlacementDecision).Status.Decisions {
				names = append(names, d.ClusterName)
			}
			return names
		}},
	} {
		if err := in.IndexField(context.Background(), x.object, x.name, x.values); err != nil {
			return err
		}
	}
	return nil
}

// placementsOf are the placements that a cloud names.
func placementsOf(c *v1alpha1.LogicalCloud) []string {
	out := make([]string, 0, len(c.Spec.Placements))
	for _, p := range c.Spec.Placements {
		out = append(out, p.Name)
	}
	return out
}

// rolesOf are the AccessRoles that a cloud names.
func rolesOf(c *v1alpha1.LogicalCloud) (names []string) {
	for _, g := range c.Spec.Grants {
		if g.Role != "" {
			names = append(names, g.Role)
		}
	}
	return names
}

// reported is what the cache keeps of a work's status: its conditions, why the
// first object could not be applied, and what a probe found of namespaces.
func reported(status workv1.ManifestWorkStatus) workv1.ManifestWorkStatus {
	out := workcache.Conditions(status)
	failed := false
	for _, m := range status.ResourceStatus.Manifests {
		applied := meta.FindStatusCondition(m.Conditions, work.ConditionApplied)
		first := applied != nil && applied.Status == "False" && !failed
		there := meta.FindStatusCondition(m.Conditions, work.ConditionAvailable)
		if m.ResourceMeta.Resource != "namespaces" {
			there = nil
		}
		if !first && there == nil && len(m.StatusFeedbacks.Values) == 0 {
			continue
		}
		kept := workv1.ManifestCondition{ResourceMeta: m.ResourceMeta, StatusFeedbacks: m.StatusFeedbacks}
		if first {
			kept.Conditions, failed = append(kept.Conditions, *applied), true
		}
		if there != nil {
			kept.Conditions = append(kept.Conditions, *there)
		}
		out.ResourceStatus.Manifests = append(out.ResourceStatus.Manifests, kept)
	}
	return out
}

// clouds are requests for the clouds that the options select.
func (c *Controller) clouds(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	return watch.Matching[client.Object](ctx, c.client, &v1alpha1.LogicalCloudList{}, nil, options...)
}

// rivals are the clouds with the same namespace in clusters.
func (c *Controller) rivals(ctx context.Context, o client.Object) []reconcile.Request {
	lc, ok := o.(*v1alpha1.LogicalCloud)
	if !ok {
		return nil
	}
	return c.clouds(ctx, client.MatchingFields{byNamespace: lc.Spec.Namespace.Name})
}

func ofRequest(_ context.Context, o client.Object) []reconcile.Request {
	r, ok := o.(*v1alpha1.AccessRequest)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.LogicalCloud}}}
}

func (c *Controller) ofRole(ctx context.Context, o client.Object) []reconcile.Request {
	return c.clouds(ctx, client.MatchingFields{byRole: o.GetName()})
}

func (c *Controller) ofPlacement(ctx context.Context, o client.Object) []reconcile.Request {
	return c.selecting(ctx, client.ObjectKeyFromObject(o))
}

func (c *Controller) ofDecision(ctx context.Context, o client.Object) []reconcile.Request {
	return c.selecting(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[cluster.PlacementLabel]})
}

// selecting are the clouds that name a placement, and those that they may keep
// out of clusters.
func (c *Controller) selecting(ctx context.Context, placement types.NamespacedName) []reconcile.Request {
	own := c.clouds(ctx, client.InNamespace(placement.Namespace), client.MatchingFields{byPlacement: placement.Name})
	all := own
	for _, r := range own {
		lc := &v1alpha1.LogicalCloud{}
		if err := c.client.Get(ctx, r.NamespacedName, lc); err == nil {
			all = append(all, c.rivals(ctx, lc)...)
		}
	}
	return all
}

// ofCluster are the clouds whose placements' decisions name a cluster.
func (c *Controller) ofCluster(ctx context.Context, o client.Object) (out []reconcile.Request) {
	list := &clusterv1beta1.PlacementDecisionList{}
	if err := c.client.List(ctx, list, client.MatchingFields{byCluster: o.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the hub is being stopped
	}
	for i := range list.Items {
		out = append(out, c.ofDecision(ctx, &list.Items[i])...)
	}
	return out
}

// inNamespace are the clouds that a change of what may be chosen concerns: of its
// own namespace for a binding, all for a cluster set.
func (c *Controller) inNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return c.clouds(ctx, client.InNamespace(o.GetNamespace()))
}

// ofWork are the cloud of a work, and those that may wait for its namespace.
func (c *Controller) ofWork(ctx context.Context, o client.Object) []reconcile.Request {
	namespace, name, _ := strings.Cut(o.GetAnnotations()[muster.LogicalCloudAnnotation], "/")
	own := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	lc := &v1alpha1.LogicalCloud{}
	if err := c.client.Get(ctx, own.NamespacedName, lc); err != nil {
		return []reconcile.Request{own} // the deletion of the cloud is an event of its own
	}
	return c.rivals(ctx, lc)
}

// selectionChanged selects what a placement says of its selection. Which clusters
// it selected is in its decisions.
func selectionChanged(was, is *clusterv1beta1.Placement) bool {
	const external = cluster.SchedulingDisabledAnnotation
	return was.Status.NumberOfSelectedClusters != is.Status.NumberOfSelectedClusters || was.Generation != is.Generation ||
		was.Annotations[external] != is.Annotations[external]
}

// clusterChanged selects what decides whether a cluster may be in a cloud, and what
// clouds report of it.
func clusterChanged(was, is *clusterv1.ManagedCluster) bool {
	available := func(mc *clusterv1.ManagedCluster) string {
		if c := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable); c != nil {
			return string(c.Status)
		}
		return ""
	}
	return !maps.Equal(was.Labels, is.Labels) || was.Spec.AcceptsClient() != is.Spec.AcceptsClient() ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() || was.UID != is.UID ||
		was.Annotations[muster.UserAccessAnnotation] != is.Annotations[muster.UserAccessAnnotation] || available(was) != available(is)
}

// workChanged selects changes of what the cache holds of a work.
func workChanged(was, is client.Object) bool {
	before, ok := was.(*workv1.ManifestWork)
	after, also := is.(*workv1.ManifestWork)
	return ok && also && (before.UID != after.UID || before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(before.Annotations, after.Annotations) || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!apiequality.Semantic.DeepEqual(before.Finalizers, after.Finalizers) || !apiequality.Semantic.DeepEqual(before.Status, after.Status))
}
