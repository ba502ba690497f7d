// Package gc empties the namespace of a deleted cluster in the right order:
// add-ons first, then works, or the resources that the hub is configured to clean.
package gc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// lookAgain is after how long resources are looked at again that the hub does
// not watch.
const lookAgain = 5 * time.Second

// What upstream's controller calls the outcomes in its log.
const (
	eventCompleted = "ResourceCleanupCompleted"
	eventFailed    = "ResourceCleanupFail"
)

// Controller reconciles deleted ManagedClusters.
type Controller struct {
	client    client.Client
	live      client.Reader
	cleaner   cleaner
	events    events.EventRecorder
	resources []schema.GroupVersionResource
}

// Options say what is deleted with a cluster.
type Options struct {
	// Resources are deleted in this order, each once nothing of the one before is
	// left. Without any, clusters only lose the finalizer that they have from a
	// time when the hub did clean.
	Resources []schema.GroupVersionResource
}

// NewController makes the controller. live reads past the cache, objects reaches
// resources of any kind.
func NewController(c client.Client, live client.Reader, objects metadata.Interface, recorder events.EventRecorder, o Options) *Controller {
	return &Controller{client: c, live: live, cleaner: cleaner{c, objects}, events: recorder, resources: o.Resources}
}

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	concerned := predicate.Or(watch.Only(watch.Deleted), watch.When(c.concerned))
	b := builder.ControllerManagedBy(m).Named("gc").For(&clusterv1.ManagedCluster{}, builder.WithPredicates(concerned))
	for _, r := range c.resources {
		if k, ok := watched(r); ok {
			b = b.Watches(k.object, handler.EnqueueRequestsFromMapFunc(c.deletedCluster))
		}
	}
	return b.Complete(patch.RetryConflicts(c))
}

// concerned selects clusters that are being deleted, or lack the finalizer that
// admission gives to every new one.
func (c *Controller) concerned(mc *clusterv1.ManagedCluster) bool {
	return !mc.DeletionTimestamp.IsZero() || len(c.resources) > 0 && !controllerutil.ContainsFinalizer(mc, cluster.ResourceCleanupFinalizer)
}

// deletedCluster is the cluster in whose namespace an object is, if it is being
// deleted or gone: only what is in the way of a deletion matters, and what
// outlived its cluster.
func (c *Controller) deletedCluster(ctx context.Context, o client.Object) []reconcile.Request {
	mc := &clusterv1.ManagedCluster{}
	err := c.client.Get(ctx, types.NamespacedName{Name: o.GetNamespace()}, mc, client.UnsafeDisableDeepCopy)
	if err == nil && mc.DeletionTimestamp.IsZero() {
		return nil
	}
	return []reconcile.Request{watch.Request(o.GetNamespace())}
}

// Reconcile deletes what is in the namespace of a deleted cluster, reports in its
// condition what is left, and removes the finalizer when nothing is. What is left
// of a cluster whose finalizers were removed by others is deleted as well.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	err := c.client.Get(ctx, r.NamespacedName, mc)
	switch {
	case apierrors.IsNotFound(err):
		return c.cleanBehind(ctx, r.Name)
	case err != nil:
		return reconcile.Result{}, err
	case mc.DeletionTimestamp.IsZero():
		return reconcile.Result{}, c.addFinalizer(ctx, mc)
	case !controllerutil.ContainsFinalizer(mc, cluster.ResourceCleanupFinalizer):
		return reconcile.Result{}, nil
	case len(c.resources) == 0:
		// Nobody has looked whether the namespace is empty, so nothing is said.
		return reconcile.Result{}, c.removeFinalizer(ctx, mc)
	}
	own, err := c.hasNamespace(ctx, mc)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !own {
		return reconcile.Result{}, c.removeFinalizer(ctx, mc)
	}
	resource, left, err := c.clean(ctx, mc.Name, nil)
	if err != nil {
		c.reportFailure(ctx, mc, err)
		return reconcile.Result{}, errors.Join(err, c.report(ctx, mc, metav1.ConditionFalse, cluster.ReasonDeletingError, err.Error()))
	}
	if left.total > 0 {
		// The message's spelling is part of the wire.
		return again(resource), c.report(ctx, mc, metav1.ConditionFalse, cluster.ReasonResourceRemaining,
			fmt.Sprintf("The resource %s is remaning, the remaining count is %d, the finalizer pending count is %d", resource.Resource, left.total, left.pending))
	}
	return reconcile.Result{}, c.release(ctx, mc)
}

// hasNamespace reports whether the namespace of a cluster's name is the cluster's.
// It need not be when the cluster was never accepted: then it may be anybody's.
func (c *Controller) hasNamespace(ctx context.Context, mc *clusterv1.ManagedCluster) (bool, error) {
	if cluster.IsReserved(mc.Name) {
		return false, nil
	}
	if mc.Spec.AcceptsClient() || controllerutil.ContainsFinalizer(mc, cluster.APIResourceCleanupFinalizer) {
		return true, nil
	}
	namespace := &corev1.Namespace{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: mc.Name}, namespace); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return namespace.Labels[cluster.NameLabel] == mc.Name, nil
}

// clean deletes the resources in their order, and returns the first one that is
// not gone.
func (c *Controller) clean(ctx context.Context, namespace string, mayDelete func(context.Context) (bool, error)) (schema.GroupVersionResource, remaining, error) {
	for _, r := range c.resources {
		left, err := c.cleaner.clean(ctx, namespace, r, mayDelete)
		if err != nil {
			return r, left, fmt.Errorf("delete the %s of the cluster %s: %w", r.Resource, namespace, err)
		}
		if left.total > 0 {
			return r, left, nil
		}
	}
	return schema.GroupVersionResource{}, remaining{}, nil
}

// again is when to look at a resource again: at its next event, when it is
// watched.
func again(r schema.GroupVersionResource) reconcile.Result {
	if _, ok := watched(r); ok {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: lookAgain}
}

// cleanBehind deletes what is left in the namespace of a cluster that is gone.
// Only namespaces that the hub made for a cluster are touched.
func (c *Controller) cleanBehind(ctx context.Context, name string) (reconcile.Result, error) {
	namespace := &corev1.Namespace{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: name}, namespace); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if namespace.Labels[cluster.NameLabel] != name || cluster.IsReserved(name) {
		return reconcile.Result{}, nil
	}
	// A cluster of that name may have been created again. The cache may hold its
	// works already, and not yet the cluster.
	gone := func(ctx context.Context) (bool, error) {
		err := c.live.Get(ctx, types.NamespacedName{Name: name}, &clusterv1.ManagedCluster{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	resource, left, err := c.clean(ctx, name, gone)
	if err != nil || left.total == 0 {
		return reconcile.Result{}, err
	}
	log.FromContext(ctx).Info("deleting what is left of a cluster that is gone", "cluster", name, "resource", resource.Resource, "count", left.total)
	return again(resource), nil
}

func (c *Controller) addFinalizer(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if len(c.resources) == 0 {
		return nil
	}
	_, err := patch.Object(ctx, c.client, mc, func() bool { return controllerutil.AddFinalizer(mc, cluster.ResourceCleanupFinalizer) })
	return patch.Explain(err, "add the finalizer to the cluster %s", mc.Name)
}

// release removes the finalizer of a cluster whose namespace is empty.
func (c *Controller) release(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if err := c.report(ctx, mc, metav1.ConditionTrue, cluster.ReasonNoResource, cluster.MessageNoResource); err != nil {
		return err
	}
	if err := c.removeFinalizer(ctx, mc); err != nil {
		return err
	}
	log.FromContext(ctx).Info("the namespace of a deleted cluster is empty", "event", eventCompleted, "cluster", mc.Name)
	return nil
}

func (c *Controller) removeFinalizer(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	_, err := patch.Object(ctx, c.client, mc, func() bool { return controllerutil.RemoveFinalizer(mc, cluster.ResourceCleanupFinalizer) })
	return patch.Explain(err, "remove the finalizer from the cluster %s", mc.Name)
}

func (c *Controller) reportFailure(ctx context.Context, mc *clusterv1.ManagedCluster, err error) {
	log.FromContext(ctx).Info("cannot empty the namespace of a deleted cluster, trying again", "event", eventFailed, "cluster", mc.Name, "err", err)
	regarding := mc.DeepCopy()
	regarding.Namespace = mc.Name // where those look who have access to the cluster's namespace only
	c.events.Eventf(regarding, nil, corev1.EventTypeWarning, eventFailed, "Delete", "%v", err)
}

func (c *Controller) report(ctx context.Context, mc *clusterv1.ManagedCluster, status metav1.ConditionStatus, reason, message string) error {
	_, err := patch.Status(ctx, c.client, mc, func() bool {
		return meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{
			Type: cluster.ConditionDeleting, Status: status, Reason: reason, Message: message,
		})
	})
	return patch.Explain(err, "report the deletion of the cluster %s", mc.Name)
}

// lowest is beyond the last priority.
const lowest = 101

// known is a resource that the hub watches anyway.
type known struct {
	object client.Object
	list   client.ObjectList
	// served is the resource in the version in which the hub watches it. Objects
	// are deleted in it, too: the version that was asked for may not be served,
	// and then the objects that the cache holds would never go.
	served schema.GroupVersionResource
}

// watched is how the hub watches a resource, in whatever version it is to be
// cleaned. ok is false when the hub does not watch it.
func watched(r schema.GroupVersionResource) (_ known, ok bool) {
	switch r.GroupResource() {
	case schema.GroupResource{Group: addon.GroupName, Resource: "managedclusteraddons"}:
		return known{&addonv1alpha1.ManagedClusterAddOn{}, &addonv1alpha1.ManagedClusterAddOnList{}, addonv1alpha1.GroupVersion.WithResource(r.Resource)}, true
	case schema.GroupResource{Group: work.GroupName, Resource: "manifestworks"}:
		served := workv1.GroupVersion.WithResource(r.Resource)
		return known{&workv1.ManifestWork{}, &workv1.ManifestWorkList{}, served}, true
	}
	return known{}, false
}

// remaining is what is left of one resource.
type remaining struct {
	total   int // objects that are still there
	pending int // of those, the ones that only wait for a finalizer
}

// cleaner deletes the objects of a namespace.
type cleaner struct {
	client client.Client
	// live reaches the resources that the hub does not watch.
	live metadata.Interface
}

// clean deletes the objects of one resource whose priority's turn it is. Once it
// has seen which they are, it asks mayDelete, if there is one; when that says
// no, it leaves them and counts none.
func (c cleaner) clean(ctx context.Context, namespace string, r schema.GroupVersionResource, mayDelete func(context.Context) (bool, error)) (remaining, error) {
	objects, err := c.list(ctx, namespace, r)
	if err != nil || len(objects) == 0 {
		return remaining{}, err
	}
	if mayDelete != nil {
		if may, err := mayDelete(ctx); err != nil || !may {
			return remaining{}, err
		}
	}
	if k, ok := watched(r); ok {
		r = k.served
	}
	left := remaining{total: len(objects)}
	turn := lowest
	for _, o := range objects {
		turn = min(turn, priority(o))
	}
	for _, o := range objects {
		switch {
		case o.GetDeletionTimestamp() != nil:
			left.pending++
		case priority(o) == turn:
			uid := o.GetUID()
			options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
			err := c.live.Resource(r).Namespace(namespace).Delete(ctx, o.GetName(), options)
			// A conflict means that the object of that name is another one by now.
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return left, err
			}
		}
	}
	return left, nil
}

// list returns the objects of a resource. That there are none is only believed
// of the hub itself: a cache may yet have to hear of a work that was created
// just before its cluster was deleted, and the cluster would go without it.
func (c cleaner) list(ctx context.Context, namespace string, r schema.GroupVersionResource) ([]metav1.Object, error) {
	if k, ok := watched(r); ok {
		if err := c.client.List(ctx, k.list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		if objects, err := items(k.list); err != nil || len(objects) > 0 {
			return objects, err
		}
		r = k.served
	}
	found, err := c.live.Resource(r).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // the hub does not serve it
	}
	if err != nil {
		return nil, err
	}
	return items(found)
}

func items(list runtime.Object) ([]metav1.Object, error) {
	var objects []metav1.Object
	err := meta.EachListItem(list, func(o runtime.Object) error {
		m, err := meta.Accessor(o)
		objects = append(objects, m)
		return err
	})
	return objects, err
}

// priority is when an object's turn to be deleted comes: 0 to 100, lowest
// first. An annotation that is missing or no such number counts as 0.
func priority(o metav1.Object) int {
	n, err := strconv.Atoi(o.GetAnnotations()[cluster.CleanupPriorityAnnotation])
	if err != nil || n < 0 || n >= lowest {
		return 0
	}
	return n
}

// DefaultResources are deleted with a cluster by default: the add-ons first, then
// the works, as some works belong to add-ons.
func DefaultResources() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		addonv1beta1.GroupVersion.WithResource("managedclusteraddons"),
		workv1.GroupVersion.WithResource("manifestworks"),
	}
}

// ParseResources reads resources of the form group/version/resource; resources of
// the core group leave out the group. It returns nil for none.
func ParseResources(list []string) ([]schema.GroupVersionResource, error) {
	var out []schema.GroupVersionResource
	var problems []error
	for _, text := range list {
		parts := strings.Split(strings.TrimSpace(text), "/")
		if len(parts) == 2 {
			parts = append([]string{""}, parts...)
		}
		if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
			problems = append(problems, fmt.Errorf("%q is not of the form group/version/resource, such as work.open-cluster-management.io/v1/manifestworks", text))
			continue
		}
		out = append(out, schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]})
	}
	return out, errors.Join(problems...)
}

// FormatResources is the reverse of ParseResources, with commas.
func FormatResources(list []schema.GroupVersionResource) string {
	text := make([]string, 0, len(list))
	for _, r := range list {
		text = append(text, strings.TrimPrefix(r.Group+"/"+r.Version+"/"+r.Resource, "/"))
	}
	return strings.Join(text, ",")
}
