package accessrequest

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

const (
	// maxRevoked is how many withdrawn keys a cloud remembers. When there are as
	// many, further requests stay until the first of them has ended.
	maxRevoked = 1000
	// maxRecords is how many requests of a user for a cluster are kept that have
	// ended.
	maxRecords = 50
)

// finalize takes back what a deleted request gave, and lets it go. It goes at once
// when nothing was handed out: then nobody has a certificate of the key.
func (c *Controller) finalize(ctx context.Context, r *v1alpha1.AccessRequest) (reconcile.Result, error) {
	f, err := c.gather(ctx, r)
	if err != nil {
		return reconcile.Result{}, err
	}
	o := &outcome{status: *r.Status.DeepCopy()}
	ended := o.is(muster.ConditionRevoked) || o.is(muster.ConditionExpired) || r.Status.NotAfter == nil || !f.now.Before(r.Status.NotAfter.Time)
	if !ended && !f.shared {
		// At once: from now on the cloud's work is rendered without the key, and a
		// new request must not bring it back.
		room, err := c.remember(ctx, f)
		if err != nil {
			return reconcile.Result{}, err
		}
		o.status.Certificate, o.status.SealedToken, o.status.Endpoints = nil, nil, nil
		switch {
		case room > 0:
			o.recheck = room
			o.set(f.now, muster.ConditionRevoked, metav1.ConditionFalse, muster.ReasonTooManyRevoked,
				fmt.Sprintf("the logical cloud remembers %d withdrawn keys, and no more; this request stays until one of them has ended", maxRevoked))
		case !f.withdrawn():
			o.pend(f)
		default:
			ended = true
			o.record(corev1.EventTypeNormal, muster.ConditionRevoked, "Revoke", "the request was deleted, and the rights are withdrawn in the cluster")
		}
		if !ended {
			return reconcile.Result{RequeueAfter: soon(o.recheck)}, c.report(ctx, r, f.hubID, o)
		}
	}
	if f.credential != nil {
		if err := apply.Delete(ctx, c.client, f.credential); err != nil {
			return reconcile.Result{}, err
		}
	}
	written, err := patch.Object(ctx, c.client, r, func() bool { return controllerutil.RemoveFinalizer(r, muster.AccessFinalizer) })
	if err == nil && written {
		c.record(r, f.hubID, o.events)
	}
	return reconcile.Result{}, err
}

// remember notes on the cloud that a key is withdrawn from a cluster. Certificates
// of earlier requests with the key may live longer than this one's, so it is noted
// for as long as the cloud lets any live. room is how long it takes until there is
// room for it.
func (c *Controller) remember(ctx context.Context, f *facts) (room time.Duration, _ error) {
	if f.cloud == nil {
		return 0, nil
	}
	key := client.ObjectKeyFromObject(f.cloud)
	until := f.now.Add(time.Duration(f.cloud.Spec.Access.MaxLifetimeSeconds) * time.Second)
	if f.request.Status.NotAfter.After(until) {
		until = f.request.Status.NotAfter.Time
	}
	entry := v1alpha1.RevokedKey{KeyHash: f.request.Status.KeyHash, ManagedCluster: f.request.Spec.ManagedCluster, Until: metav1.NewTime(until)}
	if slices.ContainsFunc(f.cloud.Status.RevokedKeys, func(k v1alpha1.RevokedKey) bool { return same(k, entry) }) {
		return 0, nil
	}
	c.revoking.LockKey(key.String())
	defer func() { _ = c.revoking.UnlockKey(key.String()) }() // fails only for keys that nobody locked
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lc := &v1alpha1.LogicalCloud{}
		if err := c.live.Get(ctx, key, lc); err != nil {
			return client.IgnoreNotFound(err)
		}
		_, err := patch.Status(ctx, c.client, lc, func() bool {
			var changed bool
			lc.Status.RevokedKeys, changed, room = revoke(lc.Status.RevokedKeys, entry, f.now)
			return changed
		})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("note on the LogicalCloud %s that a key is withdrawn: %w", key, err)
	}
	return room, nil
}

func same(a, b v1alpha1.RevokedKey) bool {
	return a.KeyHash == b.KeyHash && a.ManagedCluster == b.ManagedCluster
}

// revoke adds a key to the withdrawn ones and leaves out those that have ended.
func revoke(keys []v1alpha1.RevokedKey, entry v1alpha1.RevokedKey, now time.Time) (out []v1alpha1.RevokedKey, changed bool, room time.Duration) {
	for _, k := range keys {
		if same(k, entry) {
			return keys, false, 0
		}
		if now.Before(k.Until.Time) {
			out = append(out, k)
		}
	}
	if len(out) < maxRevoked {
		return append(out, entry), true, 0
	}
	first := slices.MinFunc(out, func(a, b v1alpha1.RevokedKey) int { return a.Until.Compare(b.Until.Time) })
	return out, len(out) != len(keys), max(first.Until.Sub(now), time.Second)
}

// forgetOldest deletes the oldest records of a user for a cluster beyond those that
// are kept, so that many short requests don't fill the store.
func (c *Controller) forgetOldest(ctx context.Context, r *v1alpha1.AccessRequest) error {
	beside, err := c.beside(ctx, r)
	if err != nil {
		return err
	}
	var records []*v1alpha1.AccessRequest
	for i := range beside {
		if other := &beside[i]; other.Spec.User == r.Spec.User && other.DeletionTimestamp == nil && other.HasEnded() {
			records = append(records, other)
		}
	}
	if len(records) <= maxRecords {
		return nil
	}
	slices.SortFunc(records, func(a, b *v1alpha1.AccessRequest) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, old := range records[:len(records)-maxRecords] {
		if err := apply.Delete(ctx, c.client, old.DeepCopy()); err != nil {
			return err
		}
	}
	return nil
}
