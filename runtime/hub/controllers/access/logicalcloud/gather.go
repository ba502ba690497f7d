package logicalcloud

import (
	"context"
	"fmt"
	"maps"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access/cloud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
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
func workChanged(was, is *workv1.ManifestWork) bool {
	return was.UID != is.UID || was.Generation != is.Generation || !maps.Equal(was.Labels, is.Labels) ||
		!maps.Equal(was.Annotations, is.Annotations) || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
		!apiequality.Semantic.DeepEqual(was.Finalizers, is.Finalizers) || !apiequality.Semantic.DeepEqual(was.Status, is.Status)
}

// situation is all that a pass decides from. Nobody may change the objects in it.
type situation struct {
	cloud     *v1alpha1.LogicalCloud
	hubID     string
	limit     int
	catalogue map[string]*v1alpha1.AccessRole
	selection selection.Selection
	// keys are those with access, by cluster.
	keys map[string][]cloud.Key
	// works and probes are the cloud's, by cluster.
	works, probes map[string]*workv1.ManifestWork
	// hubMade says that the hub has made requests for the cloud.
	hubMade bool
	// takenBy is the other cloud that has the namespace in a cluster, or gets it
	// first, by cluster.
	takenBy map[string]string
}

// works is where the works of clouds are found.
type works struct {
	client.Reader
	// of selects the works of a cloud by its CloudID.
	of func(id string) client.ListOption
}

// liveWorks finds works on the server.
func liveWorks(r client.Reader) works {
	return works{Reader: r, of: func(id string) client.ListOption { return client.MatchingLabels{muster.LogicalCloudLabel: id} }}
}

func (c *Controller) gather(ctx context.Context, lc *v1alpha1.LogicalCloud) (*situation, error) {
	s := &situation{cloud: lc, limit: c.limit, takenBy: map[string]string{}}
	var err error
	if s.hubID, err = c.hub(ctx); err != nil {
		return nil, err
	}
	if s.works, s.probes, err = c.worksOf(ctx, lc); err != nil {
		return nil, err
	}
	if s.catalogue, err = c.catalogue(ctx, lc); err != nil {
		return nil, err
	}
	if !lc.DeletionTimestamp.IsZero() {
		s.selection.Settled = true // on no cluster
		return s, nil
	}
	if s.selection, err = selection.Of(ctx, c.client, lc.Namespace, placementsOf(lc)); err != nil {
		return nil, err
	}
	if err := c.requests(ctx, s); err != nil {
		return nil, err
	}
	return s, c.contend(ctx, s)
}

// worksOf are the works and probes of a cloud, by cluster.
func (c *Controller) worksOf(ctx context.Context, lc *v1alpha1.LogicalCloud) (works, probes map[string]*workv1.ManifestWork, err error) {
	list := &workv1.ManifestWorkList{}
	if err := c.works.List(ctx, list, c.works.of(muster.CloudID(lc.Namespace, lc.Name)), client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list the works: %w", err)
	}
	works, probes = map[string]*workv1.ManifestWork{}, map[string]*workv1.ManifestWork{}
	for i := range list.Items {
		switch w := &list.Items[i]; w.Name {
		case muster.CloudWork(lc.Namespace, lc.Name):
			works[w.Namespace] = w
		case muster.CloudProbe(lc.Namespace, lc.Name):
			probes[w.Namespace] = w
		}
	}
	return works, probes, nil
}

// onServer are the works of a cloud that the server has.
func (c *Controller) onServer(ctx context.Context, lc *v1alpha1.LogicalCloud) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWorkList"))
	if err := c.live.List(ctx, list, client.MatchingLabels{muster.LogicalCloudLabel: muster.CloudID(lc.Namespace, lc.Name)}); err != nil {
		return nil, fmt.Errorf("list the works of the LogicalCloud %s: %w", client.ObjectKeyFromObject(lc), err)
	}
	return list.Items, nil
}

// catalogue are the AccessRoles that the cloud's grants name.
func (c *Controller) catalogue(ctx context.Context, lc *v1alpha1.LogicalCloud) (map[string]*v1alpha1.AccessRole, error) {
	out := map[string]*v1alpha1.AccessRole{}
	for _, name := range rolesOf(lc) {
		role, err := apply.Read(ctx, c.client, client.ObjectKey{Name: name}, &v1alpha1.AccessRole{}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, err
		}
		if role != nil && role.DeletionTimestamp.IsZero() {
			out[name] = role
		}
	}
	return out, nil
}

// requests gathers what the cloud's access requests say.
func (c *Controller) requests(ctx context.Context, s *situation) error {
	list := &v1alpha1.AccessRequestList{}
	if err := c.client.List(ctx, list, client.InNamespace(s.cloud.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the access requests: %w", err)
	}
	s.keys = map[string][]cloud.Key{}
	for i := range list.Items {
		r := &list.Items[i]
		if r.Spec.LogicalCloud != s.cloud.Name {
			continue
		}
		s.hubMade = s.hubMade || r.Labels[muster.HubMadeLabel] != ""
		if k, live := cloud.KeyOf(r); live {
			s.keys[r.Spec.ManagedCluster] = append(s.keys[r.Spec.ManagedCluster], k)
		}
	}
	return nil
}

// contend finds the clusters in which another cloud has the namespace: it has a
// work there, or it is selected there and older. A cloud that has it keeps it, so
// that no change of a placement takes away what users work in.
func (c *Controller) contend(ctx context.Context, s *situation) error {
	all := &v1alpha1.LogicalCloudList{}
	if err := c.client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the logical clouds: %w", err)
	}
	for i := range all.Items {
		rival := &all.Items[i]
		if rival.UID == s.cloud.UID || rival.Spec.Namespace.Name != s.cloud.Spec.Namespace.Name {
			continue
		}
		name := rival.Namespace + "/" + rival.Name
		theirs, _, err := c.worksOf(ctx, rival)
		if err != nil {
			return err
		}
		for cluster, w := range theirs {
			if own := s.works[cluster]; own == nil || w.CreationTimestamp.Before(&own.CreationTimestamp) {
				s.takenBy[cluster] = name
			}
		}
		if !rival.DeletionTimestamp.IsZero() || !cloud.Older(rival, s.cloud) {
			continue
		}
		wants, err := selection.Of(ctx, c.client, rival.Namespace, placementsOf(rival))
		if err != nil {
			return err
		}
		for cluster, mc := range wants.Clusters {
			if mc.Spec.AcceptsClient() && s.works[cluster] == nil {
				s.takenBy[cluster] = name
			}
		}
	}
	return nil
}
