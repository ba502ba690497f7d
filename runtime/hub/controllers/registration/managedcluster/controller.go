// Package managedcluster gives accepted clusters their namespace and their
// agents the rights to work in it, and takes them away again when a cluster is
// denied or deleted.
package managedcluster

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	hubmanager "github.com/muster-fleet/terraform-provider-muster/runtime/hub/manager"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Options say how clusters are treated.
type Options struct {
	// Labels are put on every object that is made for a cluster.
	Labels map[string]string
	// AcceptNew accepts every new cluster, once.
	AcceptNew bool
}

// Controller reconciles ManagedClusters.
type Controller struct {
	client client.Client
	apply  apply.Applier
	events events.EventRecorder
	clock  clock.PassiveClock

	options Options
	// reported are the clusters with reserved names that are in the log already.
	reported sync.Map
}

// NewController makes the controller. live reads past the cache.
func NewController(c client.Client, live client.Reader, recorder events.EventRecorder, clk clock.PassiveClock, o Options) *Controller {
	return &Controller{client: c, apply: apply.Applier{Client: c, Live: live}, events: recorder, clock: clk, options: o}
}

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	if err := hubmanager.Cache(m, &corev1.Namespace{}); err != nil {
		return err
	}
	rights := builder.WithPredicates(c.rightsChanged())
	return builder.ControllerManagedBy(m).
		Named("managedcluster").
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(watch.Changed(clusterChanged))).
		Watches(&rbacv1.ClusterRole{}, watch.ValueOfLabel(cluster.NameLabel), rights).
		Watches(&rbacv1.ClusterRoleBinding{}, watch.ValueOfLabel(cluster.NameLabel), rights).
		Watches(&rbacv1.RoleBinding{}, watch.ValueOfLabel(cluster.NameLabel), rights).
		// A deleted or denied cluster waits for the deletion of its last work.
		Watches(&workv1.ManifestWork{}, watch.ClusterOfNamespace(), builder.WithPredicates(watch.Only(watch.Deleted))).
		Complete(patch.RetryConflicts(c))
}

// Reconcile brings the hub's side of one cluster in line with its spec. A
// cluster that was never accepted gets nothing at all.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	err := c.client.Get(ctx, r.NamespacedName, mc)
	reserved := cluster.ReservedName(r.Name)
	accept := mc.Spec.AcceptsClient() || c.acceptsNow(mc)
	g := newGrants(r.Name, accept, c.options.Labels)
	switch {
	case apierrors.IsNotFound(err) && reserved != nil:
		return reconcile.Result{}, c.disown(ctx, g)
	case apierrors.IsNotFound(err):
		_, err := c.withdraw(ctx, g, false)
		return reconcile.Result{}, err
	case err != nil:
		return reconcile.Result{}, err
	case reserved != nil && !mc.DeletionTimestamp.IsZero():
		return reconcile.Result{}, c.release(ctx, mc, g)
	case reserved != nil:
		return reconcile.Result{}, c.refuse(ctx, mc, g, reserved)
	case !mc.DeletionTimestamp.IsZero():
		return reconcile.Result{}, c.remove(ctx, mc, g)
	case c.acceptsNow(mc):
		if there, err := c.acceptOnce(ctx, mc); err != nil || !there {
			if apierrors.IsForbidden(err) {
				err = errors.Join(err, c.setAccepted(ctx, mc, metav1.ConditionFalse, cluster.ReasonError, err.Error()))
			}
			return reconcile.Result{}, err
		}
		// If another client had accepted the cluster before, no event would follow.
		return reconcile.Result{}, c.admit(ctx, mc, g)
	case accept:
		return reconcile.Result{}, c.admit(ctx, mc, g)
	}
	return reconcile.Result{}, c.deny(ctx, mc, g)
}

// clusterChanged leaves out the writes that this controller does not look at:
// what agents report in the status.
func clusterChanged(was, is *clusterv1.ManagedCluster) bool {
	return was.ResourceVersion == is.ResourceVersion || // a resync
		was.Generation != is.Generation ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
		len(was.Finalizers) != len(is.Finalizers) ||
		accepted(was) != accepted(is)
}

// rightsChanged selects what others change or delete, and rights that no cluster
// should have. What this controller creates is reported to it as well.
func (c *Controller) rightsChanged() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return c.outlived(e.Object) }}
}

// outlived reports whether an object that gives rights is being deleted, or its
// cluster is gone or no longer accepted. Such are found at a start, and when the
// cluster was denied while it was being given its rights.
func (c *Controller) outlived(o client.Object) bool {
	name := o.GetLabels()[cluster.NameLabel]
	if name == "" {
		return false
	}
	if !o.GetDeletionTimestamp().IsZero() {
		return true
	}
	mc := &clusterv1.ManagedCluster{}
	err := c.client.Get(context.Background(), types.NamespacedName{Name: name}, mc, client.UnsafeDisableDeepCopy)
	return apierrors.IsNotFound(err) || err == nil && !mc.Spec.AcceptsClient()
}
