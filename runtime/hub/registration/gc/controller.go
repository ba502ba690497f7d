// Package gc empties the namespace of a deleted cluster in the right order:
// add-ons first, then works.
package gc

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// kinds are deleted in this order, each once nothing of the one before is left.
var kinds = []struct {
	gvk    schema.GroupVersionKind
	plural string
}{
	{addonv1alpha1.GroupVersion.WithKind("ManagedClusterAddOn"), "managedclusteraddons"},
	{workv1.GroupVersion.WithKind("ManifestWork"), "manifestworks"},
}

// Controller reconciles deleted ManagedClusters.
type Controller struct {
	client client.Client
}

// NewController makes the controller.
func NewController(c client.Client) *Controller { return &Controller{client: c} }

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	byNamespace := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		key := types.NamespacedName{Name: o.GetNamespace()}
		mc := &clusterv1.ManagedCluster{}
		if err := c.client.Get(ctx, key, mc); err != nil || mc.DeletionTimestamp.IsZero() {
			return nil
		}
		return []reconcile.Request{{NamespacedName: key}}
	})
	deleting := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return needsUs(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return needsUs(e.ObjectNew) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
	b := builder.ControllerManagedBy(m).Named("gc").For(&clusterv1.ManagedCluster{}, builder.WithPredicates(deleting))
	for _, k := range kinds {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(k.gvk)
		b = b.WatchesMetadata(o, byNamespace)
	}
	return b.Complete(c)
}

// needsUs reports whether a cluster is being deleted, or lacks the finalizer
// that admission gives to every new one.
func needsUs(o client.Object) bool {
	return !o.GetDeletionTimestamp().IsZero() || !controllerutil.ContainsFinalizer(o, cluster.ResourceCleanupFinalizer)
}

// Reconcile deletes what is in the namespace of a deleted cluster, tells in its
// condition what is left, and lets the cluster go when nothing is.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, r.NamespacedName, mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if mc.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, c.addFinalizer(ctx, mc)
	}
	if !controllerutil.ContainsFinalizer(mc, cluster.ResourceCleanupFinalizer) {
		return reconcile.Result{}, nil
	}
	for _, k := range kinds {
		left, err := c.clean(ctx, mc.Name, k.gvk)
		if err != nil {
			err = fmt.Errorf("delete the %s of the cluster %s: %w", k.plural, mc.Name, err)
			return reconcile.Result{}, errors.Join(err, c.report(ctx, mc, metav1.ConditionFalse, cluster.ReasonDeletingError, err.Error()))
		}
		if left.total > 0 {
			// The message's spelling is part of the wire.
			return reconcile.Result{}, c.report(ctx, mc, metav1.ConditionFalse, cluster.ReasonResourceRemaining,
				fmt.Sprintf("The resource %s is remaning, the remaining count is %d, the finalizer pending count is %d", k.plural, left.total, left.pending))
		}
	}
	if err := c.report(ctx, mc, metav1.ConditionTrue, cluster.ReasonNoResource, cluster.MessageNoResource); err != nil {
		return reconcile.Result{}, err
	}
	before := mc.DeepCopy()
	controllerutil.RemoveFinalizer(mc, cluster.ResourceCleanupFinalizer)
	if err := c.client.Patch(ctx, mc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("remove the finalizer from the cluster %s: %w", mc.Name, err)
	}
	return reconcile.Result{}, nil
}

func (c *Controller) addFinalizer(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	before := mc.DeepCopy()
	if !controllerutil.AddFinalizer(mc, cluster.ResourceCleanupFinalizer) {
		return nil
	}
	if err := c.client.Patch(ctx, mc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("add the finalizer to the cluster %s: %w", mc.Name, err)
	}
	return nil
}

type remaining struct {
	total   int // objects that are still there
	pending int // of those, the ones that only wait for a finalizer
}

// clean deletes the objects of one kind whose priority's turn it is.
func (c *Controller) clean(ctx context.Context, namespace string, gvk schema.GroupVersionKind) (remaining, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk)
	if err := c.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return remaining{}, nil // the kind is not served
		}
		return remaining{}, err
	}
	left := remaining{total: len(list.Items)}
	turn := 101
	for i := range list.Items {
		turn = min(turn, priority(&list.Items[i]))
	}
	for i := range list.Items {
		o := &list.Items[i]
		switch {
		case !o.DeletionTimestamp.IsZero():
			left.pending++
		case priority(o) == turn:
			o.SetGroupVersionKind(gvk)
			if err := c.client.Delete(ctx, o, client.Preconditions{UID: &o.UID}); client.IgnoreNotFound(err) != nil {
				return left, err
			}
		}
	}
	return left, nil
}

// priority is when an object's turn to be deleted comes: 0 to 100, lowest
// first. An annotation that is missing or no such number counts as 0.
func priority(o metav1.Object) int {
	n, err := strconv.Atoi(o.GetAnnotations()[cluster.CleanupPriorityAnnotation])
	if err != nil || n < 0 || n > 100 {
		return 0
	}
	return n
}

func (c *Controller) report(ctx context.Context, mc *clusterv1.ManagedCluster, status metav1.ConditionStatus, reason, message string) error {
	before := mc.DeepCopy()
	if !meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{
		Type: cluster.ConditionDeleting, Status: status, Reason: reason, Message: message,
	}) {
		return nil
	}
	if err := c.client.Status().Patch(ctx, mc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("report the deletion of the cluster %s: %w", mc.Name, err)
	}
	return nil
}
