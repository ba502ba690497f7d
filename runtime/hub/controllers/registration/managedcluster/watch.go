package managedcluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

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
