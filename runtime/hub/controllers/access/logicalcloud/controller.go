// Package logicalcloud keeps, for every LogicalCloud, a ManifestWork in each
// cluster that its placements select, with the cloud's namespace, its quotas and
// roles, and the bindings of the keys that have access there.
//
// A pass gathers what the cloud depends on, decides from that alone what to write
// in each cluster, writes what differs, and reports. Nothing is remembered between
// passes. Before a cluster's first work a probe finds out whether the namespace is
// there already: see the functions of decide.go.
package logicalcloud

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/hubmade"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/workcache"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// workers is how many clouds are reconciled at a time.
const workers = 3

// Controller reconciles LogicalClouds.
type Controller struct {
	client client.Client
	// live reads from the server.
	live  client.Reader
	clock clock.PassiveClock
	// limit is the greatest total size of a work's manifests, in bytes.
	limit int
	// hubMade asks for access with keys that the hub makes; nil for none.
	hubMade *hubmade.Maker
	works   works
	hub     func(context.Context) (string, error) // its ID
}

// Options say how clouds are rendered.
type Options struct {
	// ManifestLimit is the greatest total size of a work's manifests, in bytes;
	// work.DefaultManifestLimit when it is 0.
	ManifestLimit int
	// HubMade asks for access with keys that the hub makes; nil for none.
	HubMade *hubmade.Maker
}

// NewController makes the controller. live reads past the cache.
func NewController(c client.Client, live client.Reader, clk clock.PassiveClock, o Options) *Controller {
	return &Controller{client: c, live: live, clock: clk, limit: o.ManifestLimit, hubMade: o.HubMade, works: liveWorks(c), hub: hubmade.HubID(live)}
}

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	if err := index(m.GetFieldIndexer()); err != nil {
		return err
	}
	leanWorks, err := workcache.NewCache(m, muster.LogicalCloudLabel, workcache.Keep{
		Status: reported, ResourceStatus: true,
	})
	if err != nil {
		return err
	}
	c.works = works{Reader: leanWorks, of: func(id string) client.ListOption { return client.MatchingFields{workcache.ByLabel: id} }}
	generation := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return builder.ControllerManagedBy(m).
		Named("logicalcloud").
		For(&v1alpha1.LogicalCloud{}).
		Watches(&v1alpha1.LogicalCloud{}, handler.EnqueueRequestsFromMapFunc(c.rivals), generation).
		Watches(&v1alpha1.AccessRequest{}, handler.EnqueueRequestsFromMapFunc(ofRequest)).
		Watches(&v1alpha1.AccessRole{}, handler.EnqueueRequestsFromMapFunc(c.ofRole), generation).
		Watches(&clusterv1beta1.Placement{}, handler.EnqueueRequestsFromMapFunc(c.ofPlacement), builder.WithPredicates(watch.Changed(selectionChanged))).
		Watches(&clusterv1beta1.PlacementDecision{}, handler.EnqueueRequestsFromMapFunc(c.ofDecision)).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(watch.Changed(clusterChanged))).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.inNamespace), generation).
		Watches(&clusterv1beta2.ManagedClusterSetBinding{}, handler.EnqueueRequestsFromMapFunc(c.inNamespace), generation).
		WatchesRawSource(source.Kind[client.Object](leanWorks, &workv1.ManifestWork{}, handler.EnqueueRequestsFromMapFunc(c.ofWork), watch.Changed(workChanged))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(patch.RetryConflicts(c))
}

// Reconcile brings the works of one cloud in line with it.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	lc := &v1alpha1.LogicalCloud{}
	if err := c.client.Get(ctx, r.NamespacedName, lc); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, c.removeLeft(ctx, r.NamespacedName)
		}
		return reconcile.Result{}, err
	}
	if !lc.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(lc, muster.AccessFinalizer) {
		return reconcile.Result{}, nil
	}
	if lc.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(lc, muster.AccessFinalizer) {
		// Before the first work, so that none outlives the cloud.
		written, err := patch.Object(ctx, c.client, lc, func() bool { return controllerutil.AddFinalizer(lc, muster.AccessFinalizer) })
		if err != nil || !written {
			return reconcile.Result{}, err
		}
	}
	s, err := c.gather(ctx, lc)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("gather what the LogicalCloud %s depends on: %w", r.NamespacedName, err)
	}
	p := decide(s)
	failed := c.carryOut(ctx, p)
	wake, err := c.syncKeys(ctx, s)
	if err != nil && failed == nil {
		failed = err
	}
	if !lc.DeletionTimestamp.IsZero() && failed == nil {
		gone, err := c.finalize(ctx, lc, p)
		if err != nil || gone {
			return reconcile.Result{}, err
		}
	}
	if err := c.report(ctx, lc, s, p); err != nil {
		return reconcile.Result{}, err
	}
	if failed != nil {
		return reconcile.Result{}, failed
	}
	return reconcile.Result{RequeueAfter: wake}, nil
}

// syncKeys has the hub make keys, and ask for access with them, in a cloud whose key
// policy says so, and takes back what it has made in others.
func (c *Controller) syncKeys(ctx context.Context, s *situation) (wake time.Duration, err error) {
	switch {
	case c.hubMade == nil:
		return 0, nil
	case !s.cloud.DeletionTimestamp.IsZero(), s.cloud.Spec.Access.KeyPolicy != v1alpha1.KeyHubMade && s.hubMade:
		return 0, c.hubMade.Forget(ctx, s.cloud)
	case s.cloud.Spec.Access.KeyPolicy != v1alpha1.KeyHubMade, !s.selection.Settled:
		return 0, nil
	}
	var clusters []string
	for name, mc := range s.selection.Clusters {
		if mc.Spec.AcceptsClient() {
			clusters = append(clusters, name)
		}
	}
	slices.Sort(clusters)
	return c.hubMade.Sync(ctx, s.cloud, s.hubID, clusters)
}

// finalize removes the finalizer of a cloud when nothing of it is left. Only the
// server knows that: the cache may not have the newest work yet.
func (c *Controller) finalize(ctx context.Context, lc *v1alpha1.LogicalCloud, p plan) (gone bool, err error) {
	if len(p.clusters) > 0 {
		return false, nil // the deletion of each work leads here again
	}
	left, err := c.onServer(ctx, lc)
	if err != nil || len(left) > 0 {
		return false, err // an event of theirs follows
	}
	_, err = patch.Object(ctx, c.client, lc, func() bool { return controllerutil.RemoveFinalizer(lc, muster.AccessFinalizer) })
	if err != nil && !apierrors.IsConflict(err) {
		return false, fmt.Errorf("remove the finalizer from the LogicalCloud %s: %w", client.ObjectKeyFromObject(lc), err)
	}
	return err == nil, err
}

// removeLeft removes the works of a cloud that does not exist, as after the restore of
// a backup: they would give access forever.
func (c *Controller) removeLeft(ctx context.Context, key client.ObjectKey) error {
	gone := &v1alpha1.LogicalCloud{}
	gone.Namespace, gone.Name = key.Namespace, key.Name
	works, probes, err := c.worksOf(ctx, gone)
	if err != nil || len(works)+len(probes) == 0 {
		return err
	}
	if err := c.live.Get(ctx, key, &v1alpha1.LogicalCloud{}); !apierrors.IsNotFound(err) {
		return err // the cache is behind, and an event follows
	}
	for _, of := range []map[string]*workv1.ManifestWork{works, probes} {
		for name, w := range of {
			st := &step{name: name}
			st.drop(w)
			if err := c.step(ctx, st); err != nil {
				return err
			}
		}
	}
	return nil
}

// atOnce is how many clusters are written to at a time.
const atOnce = 10

// carryOut writes and deletes what the plan says. An error in one cluster stops
// no other one: it becomes the cluster's state, and the first one is returned.
func (c *Controller) carryOut(ctx context.Context, p plan) error {
	errs := make([]error, len(p.clusters))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, st := range p.clusters {
		group.Go(func() error {
			errs[i] = c.step(ctx, st)
			return nil
		})
	}
	_ = group.Wait()
	var first error
	for i, err := range errs {
		if err == nil {
			continue
		}
		if !apierrors.IsConflict(err) {
			p.clusters[i].fail("WriteFailed", "%v", err)
		}
		if first == nil {
			first = fmt.Errorf("cluster %s: %w", p.clusters[i].name, err)
		}
	}
	return first
}

// step does what there is to do in one cluster. The work comes before the removal
// of the probe that has called for it.
func (c *Controller) step(ctx context.Context, st *step) (err error) {
	defer recovery.Into(&err)
	for _, w := range [][2]*workv1.ManifestWork{{st.have, st.write}, {st.asked, st.ask}} {
		if w[1] == nil {
			continue
		}
		if err := c.write(ctx, w[0], w[1]); err != nil {
			return err
		}
	}
	for _, w := range st.remove {
		gone := &workv1.ManifestWork{}
		gone.Namespace, gone.Name = w.Namespace, w.Name
		err := c.client.Delete(ctx, gone, client.Preconditions{UID: &w.UID, ResourceVersion: &w.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the work %s: %w", w.Name, err)
		}
	}
	return nil
}

// write creates a work, or gives one its content. What agents and others have
// added to its metadata stays.
func (c *Controller) write(ctx context.Context, have, want *workv1.ManifestWork) error {
	if have == nil {
		err := c.client.Create(ctx, want)
		switch {
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return nil // the cluster is being removed, and its placements will change
		case apierrors.IsAlreadyExists(err):
			return nil // the cache is behind, and an event follows
		case err != nil:
			return fmt.Errorf("create the work %s: %w", want.Name, err)
		}
		return nil
	}
	w := have.DeepCopy()
	w.Spec = want.Spec
	for _, m := range []struct{ have, want *map[string]string }{{&w.Labels, &want.Labels}, {&w.Annotations, &want.Annotations}} {
		if *m.have == nil {
			*m.have = map[string]string{}
		}
		maps.Copy(*m.have, *m.want)
	}
	err := c.client.Update(ctx, w)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update the work %s: %w", w.Name, err)
	}
	return nil
}
