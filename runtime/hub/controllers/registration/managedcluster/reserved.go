package managedcluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// refuse reports a cluster whose name is reserved, and takes away what an
// earlier hub granted it. Admission refuses such clusters, so it comes from a
// store that was written without it. why ends with the remedy.
func (c *Controller) refuse(ctx context.Context, mc *clusterv1.ManagedCluster, g grants, why error) error {
	if err := c.disown(ctx, g); err != nil {
		return err
	}
	message := why.Error() + ", and delete this one"
	if _, before := c.reported.LoadOrStore(mc.Name, true); !before {
		log.FromContext(ctx).Info("a managed cluster is granted nothing, as its name is reserved", "cluster", mc.Name, "err", message)
		c.events.Eventf(mc, nil, corev1.EventTypeWarning, cluster.ReasonNameReserved, "Accept", "%s", message)
	}
	return c.setAccepted(ctx, mc, metav1.ConditionFalse, cluster.ReasonNameReserved, message)
}

// release removes the finalizer of a deleted cluster whose name is reserved. It
// never had a namespace of its own, so it waits for nothing there.
func (c *Controller) release(ctx context.Context, mc *clusterv1.ManagedCluster, g grants) error {
	if err := c.disown(ctx, g); err != nil {
		return err
	}
	return c.removeFinalizer(ctx, mc)
}

// disown deletes the roles and bindings of a reserved name, but for those that
// all clusters share, and takes the label of clusters' namespaces off the
// namespace of that name, which keeps ordinary namespaces from working.
func (c *Controller) disown(ctx context.Context, g grants) error {
	if err := c.deleteGrants(ctx, g, false); err != nil {
		return err
	}
	if err := c.releaseWorkBinding(ctx, g); err != nil {
		return err
	}
	namespace := &corev1.Namespace{}
	err := c.client.Get(ctx, client.ObjectKeyFromObject(g.namespace), namespace)
	if apierrors.IsNotFound(err) {
		return nil // it does not exist, or has no label
	}
	if err != nil {
		return fmt.Errorf("read the namespace %s: %w", g.namespace.Name, err)
	}
	_, err = patch.Object(ctx, c.client, namespace, func() bool {
		delete(namespace.Labels, cluster.NameLabel)
		return true
	}, patch.SoleWriter())
	if err != nil {
		return fmt.Errorf("take the label %s off the namespace %s: %w", cluster.NameLabel, namespace.Name, err)
	}
	return nil
}
