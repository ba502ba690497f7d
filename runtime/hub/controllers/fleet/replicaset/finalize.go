package replicaset

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// finalize deletes the works of a set that is being deleted, and then removes its
// finalizer: at once, or with the policy Foreground when they are gone.
func (c *Controller) finalize(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) error {
	if !controllerutil.ContainsFinalizer(set, work.ReplicaSetFinalizer) {
		return nil
	}
	if _, ok := invalidName(set); !ok { // with such a name it can have none
		left, err := c.deleteWorks(ctx, set)
		if err != nil {
			return err
		}
		if left && set.Spec.CascadeDeletionPolicy == workv1alpha1.CascadeDeletionPolicyForeground {
			return nil // the deletion of each work leads here again
		}
	}
	_, err := patch.Object(ctx, c.client, set, func() bool { return controllerutil.RemoveFinalizer(set, work.ReplicaSetFinalizer) })
	if ignoreOutdated(err) != nil {
		return fmt.Errorf("remove the finalizer from the ManifestWorkReplicaSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	return nil
}

// deleteWorks deletes the works of a set, and reports whether any are left.
func (c *Controller) deleteWorks(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) (left bool, err error) {
	known, err := c.cached(ctx, set)
	if err != nil {
		return false, err
	}
	living := func(w *workv1.ManifestWork) bool { return w.DeletionTimestamp.IsZero() }
	if len(known) > 0 && !slices.ContainsFunc(known, living) && set.Spec.CascadeDeletionPolicy == workv1alpha1.CascadeDeletionPolicyForeground {
		return true, nil // all of them are being deleted
	}
	// Only the server knows that there are no more: the cache may not have the
	// newest yet, and nothing would delete it once the set is gone.
	there, err := c.onServer(ctx, set)
	if err != nil {
		return false, err
	}
	var keys []key
	for i := range there {
		if there[i].DeletionTimestamp.IsZero() {
			keys = append(keys, key{client.ObjectKeyFromObject(&there[i]), there[i].UID})
		}
	}
	return len(there) > 0, c.deleteAll(ctx, keys)
}
