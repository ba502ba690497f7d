// Package managedcluster gives accepted clusters their namespace and their
// agents the rights to work in it, and takes them away again when a cluster is
// denied or deleted.
package managedcluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/enqueue"
)

// What upstream's controller calls a change of the acceptance in its log.
const (
	eventAccepted = "ManagedClusterAccepted"
	eventDenied   = "ManagedClusterDenied"
)

// Controller reconciles ManagedClusters.
type Controller struct {
	client client.Client
	apply  apply.Applier
	clock  clock.PassiveClock

	events  events.EventRecorder
	objects permissions
	// told are the clusters with reserved names that were reported in the log.
	told sync.Map

	// autoAccept accepts every new cluster, once.
	autoAccept bool
}

// NewController makes the controller. live reads past the cache. labels are put
// on every object that is made for a cluster. autoAccept accepts every new
// cluster, once.
func NewController(c client.Client, live client.Reader, recorder events.EventRecorder, clk clock.PassiveClock, labels map[string]string, autoAccept bool) *Controller {
	return &Controller{client: c, apply: apply.Applier{Client: c, Live: live}, events: recorder, clock: clk, objects: permissions{labels}, autoAccept: autoAccept}
}

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	byLabel := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		name := o.GetLabels()[cluster.NameLabel]
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
	})
	// What this controller creates itself comes back as an event; only what
	// others change or delete is of interest, and what nobody should have.
	rights := builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return c.outlived(e.Object) },
	})
	// The last work to go lets a deleted or denied cluster go on.
	gone := builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	})
	works := &metav1.PartialObjectMetadata{}
	works.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWork"))
	return builder.ControllerManagedBy(m).
		Named("managedcluster").
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(changed)).
		Watches(&rbacv1.ClusterRole{}, byLabel, rights).
		Watches(&rbacv1.ClusterRoleBinding{}, byLabel, rights).
		Watches(&rbacv1.RoleBinding{}, byLabel, rights).
		WatchesMetadata(works, enqueue.ClusterOfNamespace(), gone).
		Complete(c)
}

// changed lets everything pass but the writes that this controller does not
// look at: what agents report in the status.
var changed = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*clusterv1.ManagedCluster), e.ObjectNew.(*clusterv1.ManagedCluster)
		return was.ResourceVersion == is.ResourceVersion || // a resync
			was.Generation != is.Generation ||
			was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
			len(was.Finalizers) != len(is.Finalizers) ||
			accepted(was) != accepted(is)
	},
}

// accepted is the status of the condition HubAcceptedManagedCluster, "" when
// the cluster has none.
func accepted(c *clusterv1.ManagedCluster) metav1.ConditionStatus {
	if have := meta.FindStatusCondition(c.Status.Conditions, cluster.ConditionHubAccepted); have != nil {
		return have.Status
	}
	return ""
}

// outlived reports whether an object that gives rights is on its way out, or
// its cluster is gone or no longer accepted. Such are found at a start, and when
// the cluster was denied while it was being given its rights.
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

// Reconcile brings the hub's side of one cluster in line with its spec. A
// cluster that was never accepted gets nothing at all.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	err := c.client.Get(ctx, r.NamespacedName, mc)
	reserved := cluster.ReservedName(r.Name)
	switch {
	case apierrors.IsNotFound(err) && reserved != nil:
		return reconcile.Result{}, c.disown(ctx, r.Name)
	case apierrors.IsNotFound(err):
		_, err := c.withdraw(ctx, r.Name, false)
		return reconcile.Result{}, err
	case err != nil:
		return reconcile.Result{}, err
	case reserved != nil && !mc.DeletionTimestamp.IsZero():
		return reconcile.Result{}, c.release(ctx, mc)
	case reserved != nil:
		return reconcile.Result{}, c.refuse(ctx, mc, reserved)
	case !mc.DeletionTimestamp.IsZero():
		return reconcile.Result{}, c.remove(ctx, mc)
	case c.autoAccept && mc.Annotations[cluster.AutoAcceptedAnnotation] == "":
		if err := c.acceptOnce(ctx, mc); err != nil {
			if apierrors.IsForbidden(err) {
				err = errors.Join(err, c.setAccepted(ctx, mc, metav1.ConditionFalse, cluster.ReasonError, err.Error()))
			}
			return reconcile.Result{}, err
		}
		// A cluster that was accepted by somebody else already changes in nothing
		// that would bring us back.
		return reconcile.Result{}, c.admit(ctx, mc)
	case mc.Spec.AcceptsClient():
		return reconcile.Result{}, c.admit(ctx, mc)
	}
	return reconcile.Result{}, c.deny(ctx, mc)
}

// acceptOnce accepts a new cluster and notes it, so that one that is denied
// later stays denied.
func (c *Controller) acceptOnce(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	before := mc.DeepCopy()
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, cluster.AutoAcceptedAnnotation, c.clock.Now().UTC().Format("2006-01-02T15:04:05Z07:00"))
	mc.Spec.HubAcceptsClient = ptr.To(true)
	if err := c.client.Patch(ctx, mc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("accept the cluster %s: %w", mc.Name, err)
	}
	return nil
}

// admit gives an accepted cluster its namespace and its rights.
func (c *Controller) admit(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if err := c.grant(ctx, mc); err != nil {
		return errors.Join(err, c.setAccepted(ctx, mc, metav1.ConditionFalse, cluster.ReasonError, err.Error()))
	}
	return c.setAccepted(ctx, mc, metav1.ConditionTrue, cluster.ReasonHubAccepted, cluster.MessageHubAccepted)
}

func (c *Controller) grant(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	// Admission adds the finalizer together with the acceptance. A cluster from
	// before that, or from an upstream hub's backup, gets it here.
	if !controllerutil.ContainsFinalizer(mc, cluster.APIResourceCleanupFinalizer) {
		before := mc.DeepCopy()
		controllerutil.AddFinalizer(mc, cluster.APIResourceCleanupFinalizer)
		if err := c.client.Patch(ctx, mc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("add the finalizer to the cluster %s: %w", mc.Name, err)
		}
	}
	if err := c.namespace(ctx, mc); err != nil {
		return err
	}
	if err := c.apply.ClusterRole(ctx, c.objects.clusterRole(mc.Name, true)); err != nil {
		return err
	}
	if err := c.apply.ClusterRoleBinding(ctx, c.objects.clusterRoleBinding(mc.Name)); err != nil {
		return err
	}
	if err := c.apply.RoleBinding(ctx, c.objects.registrationBinding(mc.Name)); err != nil {
		return err
	}
	// A binding that is still on its way out from a denial has to go before it
	// can come back. Its deletion brings us here again.
	have := &rbacv1.RoleBinding{}
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(c.objects.workBinding(mc.Name)), have); err == nil && !have.DeletionTimestamp.IsZero() {
		return c.releaseWorkBinding(ctx, mc.Name)
	}
	return c.apply.RoleBinding(ctx, c.objects.workBinding(mc.Name))
}

// namespace makes the cluster's namespace. One that is there before the cluster
// had any rights and is not a cluster's stays what it is: it came about between
// the acceptance, which admission checked, and now.
func (c *Controller) namespace(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	want := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: mc.Name, Labels: c.objects.labels(mc.Name)}}
	if accepted(mc) != metav1.ConditionTrue {
		have := &corev1.Namespace{}
		err := c.client.Get(ctx, client.ObjectKeyFromObject(want), have)
		if apierrors.IsNotFound(err) { // or not labelled, which the cache does not tell
			if err = c.client.Create(ctx, want.DeepCopy()); err == nil {
				return nil
			}
			if !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create the namespace %s: %w", mc.Name, err)
			}
			err = c.apply.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
		}
		if err != nil {
			return fmt.Errorf("read the namespace %s: %w", mc.Name, err)
		}
		if err := cluster.NamespaceOf(mc.Name, have.Labels); err != nil {
			return err
		}
	}
	return c.apply.Namespace(ctx, want)
}

// deny withdraws the rights of a cluster that was accepted before. Its agent
// may still read its own ManagedCluster, to learn that it was denied, and
// finish with works that are being deleted; the hub's authorizer sees to it that
// it gets nothing else out of the binding that stays for that. A cluster that
// was never accepted has nothing, and nothing is said about it.
func (c *Controller) deny(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	role := c.objects.clusterRole(mc.Name, false)
	err := c.client.Get(ctx, client.ObjectKeyFromObject(role), &rbacv1.ClusterRole{})
	if apierrors.IsNotFound(err) && accepted(mc) != metav1.ConditionTrue {
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err := c.apply.ClusterRole(ctx, role); err != nil {
		return err
	}
	working := false
	for _, b := range []*rbacv1.RoleBinding{c.objects.registrationBinding(mc.Name), c.objects.workBinding(mc.Name)} {
		have := &rbacv1.RoleBinding{}
		err := c.client.Get(ctx, client.ObjectKeyFromObject(b), have)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		working = working || have.Name == cluster.WorkBindingName(mc.Name)
		if !have.DeletionTimestamp.IsZero() {
			continue
		}
		if err := apply.Delete(ctx, c.client, b); err != nil {
			return err
		}
	}
	if working {
		left, err := c.worksLeft(ctx, mc.Name)
		if err != nil {
			return err
		}
		if !left { // else the deletion of the last work brings us back
			if err := c.releaseWorkBinding(ctx, mc.Name); err != nil {
				return err
			}
		}
	}
	return c.setAccepted(ctx, mc, metav1.ConditionFalse, cluster.ReasonHubDenied, cluster.MessageHubDenied)
}

// remove withdraws the rights of a deleted cluster and lets it go once none of
// its works is left.
func (c *Controller) remove(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if !controllerutil.ContainsFinalizer(mc, cluster.APIResourceCleanupFinalizer) {
		return nil
	}
	done, err := c.withdraw(ctx, mc.Name, true)
	if err != nil || !done {
		return err
	}
	before := mc.DeepCopy()
	controllerutil.RemoveFinalizer(mc, cluster.APIResourceCleanupFinalizer)
	if err := c.client.Patch(ctx, mc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer from the cluster %s: %w", mc.Name, err)
	}
	return nil
}

// withdraw deletes what grant made, except for the namespace, which stays. It
// reports whether all is gone. unconditional deletes without looking first.
func (c *Controller) withdraw(ctx context.Context, name string, unconditional bool) (done bool, err error) {
	if err := c.deleteGrants(ctx, name, unconditional); err != nil {
		return false, err
	}
	left, err := c.worksLeft(ctx, name)
	if err != nil || left {
		return false, err
	}
	return true, c.releaseWorkBinding(ctx, name)
}

// deleteGrants deletes a cluster's roles and bindings. unconditional deletes
// without looking first.
func (c *Controller) deleteGrants(ctx context.Context, name string, unconditional bool) error {
	objects := []client.Object{c.objects.clusterRoleBinding(name), c.objects.registrationBinding(name), c.objects.workBinding(name)}
	if !cluster.SharedRole(cluster.RoleName(name)) {
		objects = append(objects, c.objects.clusterRole(name, false))
	}
	for _, o := range objects {
		if !unconditional {
			have := o.DeepCopyObject().(client.Object)
			if err := c.client.Get(ctx, client.ObjectKeyFromObject(o), have); apierrors.IsNotFound(err) {
				continue
			}
		}
		if err := apply.Delete(ctx, c.client, o); err != nil {
			return err
		}
	}
	return nil
}

// worksLeft reports whether a cluster's namespace holds works.
func (c *Controller) worksLeft(ctx context.Context, name string) (bool, error) {
	works := &metav1.PartialObjectMetadataList{}
	works.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWorkList"))
	if err := c.client.List(ctx, works, client.InNamespace(name)); err != nil {
		return false, fmt.Errorf("list the works of the cluster %s: %w", name, err)
	}
	return len(works.Items) > 0, nil
}

// releaseWorkBinding lets the binding go that outlived the others.
func (c *Controller) releaseWorkBinding(ctx context.Context, name string) error {
	have := &rbacv1.RoleBinding{}
	err := c.apply.Live.Get(ctx, client.ObjectKeyFromObject(c.objects.workBinding(name)), have)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if have.DeletionTimestamp.IsZero() || !controllerutil.ContainsFinalizer(have, work.ManifestWorkFinalizer) {
		return nil
	}
	before := have.DeepCopy()
	controllerutil.RemoveFinalizer(have, work.ManifestWorkFinalizer)
	if err := c.client.Patch(ctx, have, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer from the role binding %s: %w", client.ObjectKeyFromObject(have), err)
	}
	return nil
}

func (c *Controller) setAccepted(ctx context.Context, mc *clusterv1.ManagedCluster, status metav1.ConditionStatus, reason, message string) error {
	before := mc.DeepCopy()
	if !meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{
		Type: cluster.ConditionHubAccepted, Status: status, Reason: reason, Message: message,
	}) {
		return nil
	}
	event := map[string]string{cluster.ReasonHubAccepted: eventAccepted, cluster.ReasonHubDenied: eventDenied}[reason]
	if err := c.client.Status().Patch(ctx, mc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("report the acceptance of the cluster %s: %w", mc.Name, err)
	}
	log.FromContext(ctx).Info("acceptance changed", "event", event, "cluster", mc.Name, "accepted", status, "reason", reason)
	return nil
}
