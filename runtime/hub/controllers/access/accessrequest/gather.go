package accessrequest

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access/cloud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
)

// gather reads what a request depends on. It reads of its own cluster only, so
// that it costs the same in clouds of any size.
func (c *Controller) gather(ctx context.Context, r *v1alpha1.AccessRequest) (*facts, error) {
	f := &facts{now: c.clock.Now(), request: r}
	var err error
	if f.hubID, err = c.hub(ctx); err != nil {
		return nil, err
	}
	f.cloud, err = found(ctx, c.client, client.ObjectKey{Namespace: r.Namespace, Name: r.Spec.LogicalCloud}, &v1alpha1.LogicalCloud{})
	if err != nil {
		return nil, err
	}
	if f.cluster, err = found(ctx, c.client, client.ObjectKey{Name: r.Spec.ManagedCluster}, &clusterv1.ManagedCluster{}); err != nil {
		return nil, err
	}
	name := client.ObjectKey{Namespace: r.Spec.ManagedCluster, Name: muster.CloudWork(r.Namespace, r.Spec.LogicalCloud)}
	if f.work, err = found(ctx, c.works, name, &workv1.ManifestWork{}); err != nil {
		return nil, err
	}
	if f.credential, err = c.credential(ctx, f); err != nil {
		return nil, err
	}
	if f.shared, err = c.isShared(ctx, r); err != nil {
		return nil, err
	}
	if f.cloud != nil && f.cluster != nil {
		if f.selected, f.settled, err = c.isSelected(ctx, f.cloud, f.cluster); err != nil {
			return nil, err
		}
	}
	if offline, _ := f.offline(); offline {
		f.heartbeat = c.heartbeat(ctx, r.Spec.ManagedCluster)
	}
	return f, nil
}

// found reads an object; nil when there is none.
func found[T client.Object](ctx context.Context, r client.Reader, key client.ObjectKey, o T) (T, error) {
	var none T
	err := r.Get(ctx, key, o)
	switch {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("read the %T %s: %w", o, key, err)
	}
	return o, nil
}

// credential reads the credential of a request. One that asks for anything else
// is not the hub's, and is removed.
func (c *Controller) credential(ctx context.Context, f *facts) (*v1alpha1.ClusterCredential, error) {
	r := f.request
	key := client.ObjectKey{Namespace: r.Spec.ManagedCluster, Name: muster.Credential(string(r.UID))}
	have, err := found(ctx, c.client, key, &v1alpha1.ClusterCredential{})
	if err != nil || have == nil || f.cloud == nil || apiequality.Semantic.DeepEqual(have.Spec, wanted(f).Spec) {
		return have, err
	}
	return nil, apply.Delete(ctx, c.client, have)
}

// isShared reports whether another request with the same key has access to the
// cluster by the same cloud.
func (c *Controller) isShared(ctx context.Context, r *v1alpha1.AccessRequest) (bool, error) {
	if r.Status.KeyHash == "" {
		return false, nil
	}
	beside, err := c.beside(ctx, r)
	return slices.ContainsFunc(beside, func(other v1alpha1.AccessRequest) bool {
		key, live := cloud.KeyOf(&other)
		return other.UID != r.UID && live && key.Hash == r.Status.KeyHash
	}), err
}

// beside are the requests for the same cluster of the same cloud. Nobody may change
// them.
func (c *Controller) beside(ctx context.Context, r *v1alpha1.AccessRequest) ([]v1alpha1.AccessRequest, error) {
	list := &v1alpha1.AccessRequestList{}
	err := c.client.List(ctx, list, client.InNamespace(r.Namespace), client.MatchingFields{byCloudAndCluster: cloudAndCluster(r.Spec.LogicalCloud, r.Spec.ManagedCluster)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the access requests for the cluster %s: %w", r.Spec.ManagedCluster, err)
	}
	return list.Items, nil
}

// isSelected reports whether a placement of a cloud selects a cluster that it may
// choose. settled is false while decisions are being written.
func (c *Controller) isSelected(ctx context.Context, lc *v1alpha1.LogicalCloud, mc *clusterv1.ManagedCluster) (selected, settled bool, _ error) {
	decisions := &clusterv1beta1.PlacementDecisionList{}
	if err := c.client.List(ctx, decisions, client.InNamespace(lc.Namespace), client.MatchingFields{byDecision: mc.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return false, false, fmt.Errorf("list the decisions for the cluster %s: %w", mc.Name, err)
	}
	settled = true
	for _, ref := range lc.Spec.Placements {
		p, err := found(ctx, c.client, client.ObjectKey{Namespace: lc.Namespace, Name: ref.Name}, &clusterv1beta1.Placement{})
		if err != nil {
			return false, false, err
		}
		if p == nil {
			continue
		}
		if !slices.ContainsFunc(decisions.Items, func(d clusterv1beta1.PlacementDecision) bool { return d.Labels[cluster.PlacementLabel] == p.Name }) {
			// Only of a cluster that is in none it matters whether there are more to
			// come.
			s, err := selection.Of(ctx, c.client, lc.Namespace, []string{p.Name})
			if err != nil {
				return false, false, err
			}
			settled = settled && s.Settled
			continue
		}
		from, err := selection.ChoiceOf(ctx, c.client, p)
		if err != nil {
			return false, false, err
		}
		if from.Standing(mc) != selection.Stranger {
			return true, true, nil
		}
	}
	return false, settled, nil
}

// heartbeat says when a cluster's agent was last heard of.
func (c *Controller) heartbeat(ctx context.Context, name string) string {
	lease, err := found(ctx, c.client, client.ObjectKey{Namespace: name, Name: cluster.LeaseName}, &coordinationv1.Lease{})
	if err != nil || lease == nil || lease.Spec.RenewTime == nil {
		return ""
	}
	return " since " + stamp(lease.Spec.RenewTime.Time)
}
