package managedcluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// refuse reports a cluster whose name is reserved, and takes away what an
// earlier hub granted it. Admission refuses such clusters, so it comes from a
// store that was written without it. why ends with the remedy.
func (c *Controller) refuse(ctx context.Context, mc *clusterv1.ManagedCluster, why error) error {
	if err := c.disown(ctx, mc.Name); err != nil {
		return err
	}
	message := why.Error() + ", and delete this one"
	if _, told := c.told.LoadOrStore(mc.Name, true); !told {
		log.FromContext(ctx).Info("a managed cluster is granted nothing, as its name is reserved", "cluster", mc.Name, "err", message)
		c.events.Eventf(mc, nil, corev1.EventTypeWarning, cluster.ReasonNameReserved, "Accept", "%s", message)
	}
	return c.setAccepted(ctx, mc, metav1.ConditionFalse, cluster.ReasonNameReserved, message)
}

// release lets a deleted cluster go whose name is reserved. It never had a
// namespace of its own, so nothing is waited for there.
func (c *Controller) release(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if err := c.disown(ctx, mc.Name); err != nil {
		return err
	}
	before := mc.DeepCopy()
	if !controllerutil.RemoveFinalizer(mc, cluster.APIResourceCleanupFinalizer) {
		return nil
	}
	if err := c.client.Patch(ctx, mc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer from the cluster %s: %w", mc.Name, err)
	}
	return nil
}

// disown deletes the roles and bindings of a reserved name, but for those that
// all clusters share, and takes the label of clusters' namespaces off the
// namespace of that name, which keeps ordinary namespaces from working.
func (c *Controller) disown(ctx context.Context, name string) error {
	if err := c.deleteGrants(ctx, name, false); err != nil {
		return err
	}
	if err := c.releaseWorkBinding(ctx, name); err != nil {
		return err
	}
	namespace := &corev1.Namespace{}
	err := c.client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return nil // not there, or without the label
	}
	if err != nil {
		return fmt.Errorf("read the namespace %s: %w", name, err)
	}
	before := namespace.DeepCopy()
	delete(namespace.Labels, cluster.NameLabel)
	if err := c.client.Patch(ctx, namespace, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take the label %s off the namespace %s: %w", cluster.NameLabel, name, err)
	}
	return nil
}
