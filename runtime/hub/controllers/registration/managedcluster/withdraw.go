package managedcluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// deny withdraws the rights of a cluster that was accepted before. Its agent
// may still read its own ManagedCluster, to learn that it was denied, and
// finish with works that are being deleted; the hub's authorizer makes sure that
// the binding that stays for that gives it nothing else. A cluster that was never
// accepted has no rights, and no condition says so.
func (c *Controller) deny(ctx context.Context, mc *clusterv1.ManagedCluster, g grants) error {
	err := c.client.Get(ctx, client.ObjectKeyFromObject(g.clusterRole), &rbacv1.ClusterRole{})
	if apierrors.IsNotFound(err) && accepted(mc) != metav1.ConditionTrue {
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err := c.apply.Apply(ctx, g.clusterRole); err != nil {
		return err
	}
	working := false
	for _, b := range []*rbacv1.RoleBinding{g.registrationBinding, g.workBinding} {
		have := &rbacv1.RoleBinding{}
		err := c.client.Get(ctx, client.ObjectKeyFromObject(b), have)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		working = working || b == g.workBinding
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
		if !left { // otherwise the deletion of the last work leads here again
			if err := c.releaseWorkBinding(ctx, g); err != nil {
				return err
			}
		}
	}
	return c.setAccepted(ctx, mc, metav1.ConditionFalse, cluster.ReasonHubDenied, cluster.MessageHubDenied)
}

// remove withdraws the rights of a deleted cluster, and removes its finalizer
// once it has no works any more.
func (c *Controller) remove(ctx context.Context, mc *clusterv1.ManagedCluster, g grants) error {
	if !controllerutil.ContainsFinalizer(mc, cluster.APIResourceCleanupFinalizer) {
		return nil
	}
	done, err := c.withdraw(ctx, g, true)
	if err != nil || !done {
		return err
	}
	if err := c.void(ctx, mc); err != nil {
		return err
	}
	return c.removeFinalizer(ctx, mc)
}

// void notes on the namespace, which stays, that a cluster goes which was denied, or whose
// agent was replaced: otherwise the certificates of then would be good again for the next
// cluster of the name.
func (c *Controller) void(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if mc.Spec.AcceptsClient() && mc.Annotations[cluster.AgentAnnotation] == "" {
		return nil
	}
	namespace := &corev1.Namespace{}
	if err := c.apply.Live.Get(ctx, client.ObjectKey{Name: mc.Name}, namespace); err != nil {
		return client.IgnoreNotFound(err)
	}
	if cluster.NamespaceOf(mc.Name, namespace.Labels) != nil {
		return nil //nolint:nilerr // the namespace is somebody else's, and has nothing of the cluster
	}
	_, err := patch.Object(ctx, c.client, namespace, func() bool {
		now := c.clock.Now().UTC().Format(time.RFC3339)
		metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, cluster.VoidedAnnotation, now)
		return true
	})
	return patch.Explain(err, "note on the namespace %s that the identities of the deleted cluster are void", mc.Name)
}

func (c *Controller) removeFinalizer(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	_, err := patch.Object(ctx, c.client, mc, func() bool {
		return controllerutil.RemoveFinalizer(mc, cluster.APIResourceCleanupFinalizer)
	})
	return patch.Explain(err, "remove the finalizer from the cluster %s", mc.Name)
}

// withdraw deletes what grant made, except for the namespace, which stays. It
// reports whether all is gone. unconditional deletes without reading first.
func (c *Controller) withdraw(ctx context.Context, g grants, unconditional bool) (done bool, err error) {
	if err := c.deleteGrants(ctx, g, unconditional); err != nil {
		return false, err
	}
	left, err := c.worksLeft(ctx, g.namespace.Name)
	if err != nil || left {
		return false, err
	}
	return true, c.releaseWorkBinding(ctx, g)
}

// deleteGrants deletes a cluster's roles and bindings. unconditional deletes
// without reading first.
func (c *Controller) deleteGrants(ctx context.Context, g grants, unconditional bool) error {
	objects := []client.Object{g.clusterRoleBinding, g.registrationBinding, g.workBinding}
	if !cluster.SharedRole(g.clusterRole.Name) {
		objects = append(objects, g.clusterRole)
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
	works := &workv1.ManifestWorkList{}
	if err := c.client.List(ctx, works, client.InNamespace(name), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list the works of the cluster %s: %w", name, err)
	}
	return len(works.Items) > 0, nil
}

// releaseWorkBinding removes the finalizer of the binding that outlives the
// others, if it is being deleted.
func (c *Controller) releaseWorkBinding(ctx context.Context, g grants) error {
	have := &rbacv1.RoleBinding{}
	err := c.apply.Live.Get(ctx, client.ObjectKeyFromObject(g.workBinding), have)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = patch.Object(ctx, c.client, have, func() bool {
		return !have.DeletionTimestamp.IsZero() && controllerutil.RemoveFinalizer(have, work.ManifestWorkFinalizer)
	})
	return patch.Explain(err, "remove the finalizer from the role binding %s", client.ObjectKeyFromObject(have))
}

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
	return patch.Explain(err, "take the label %s off the namespace %s", cluster.NameLabel, namespace.Name)
}
