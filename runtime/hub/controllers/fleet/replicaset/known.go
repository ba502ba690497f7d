package replicaset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// known lists the sets whose works are all known: the cache has them, except for what this
// process has written since. A question to the server costs a look at the works of all sets,
// so it is asked once for a set, and only where another process may have made works. The
// zero value knows no set. It is safe for concurrent use.
type known struct {
	mu   sync.Mutex
	sets map[types.NamespacedName]*account
}

// account is what this process has written of one set. One pass at a time uses it.
type account struct {
	set types.UID
	// written are the works that the cache may not show yet as they were written.
	written map[types.UID]written
}

type written struct {
	types.NamespacedName
	generation int64 // 0 for a work that was deleted
	at         time.Time
}

// of is the account of a set; nil while its works are not known.
func (k *known) of(set *workv1alpha1.ManifestWorkReplicaSet) *account {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.sets[client.ObjectKeyFromObject(set)]; a != nil && a.set == set.UID {
		return a
	}
	return nil
}

// begin notes that the cache has all works of a set.
func (k *known) begin(set *workv1alpha1.ManifestWorkReplicaSet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sets == nil {
		k.sets = map[types.NamespacedName]*account{}
	}
	k.sets[client.ObjectKeyFromObject(set)] = &account{set: set.UID, written: map[types.UID]written{}}
}

// forget notes that the works of a set are not known.
func (k *known) forget(set types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.sets, set)
}

// wrote notes a work as it was written; generation is 0 when it was deleted. It may be
// called for no account.
func (a *account) wrote(w *workv1.ManifestWork, generation int64, at time.Time) {
	if a != nil {
		a.written[w.UID] = written{client.ObjectKeyFromObject(w), generation, at}
	}
}

// awaits reports whether the cache may not show all that was written. It may be called for
// no account.
func (a *account) awaits() bool { return a != nil && len(a.written) > 0 }

// behind reports whether the works of a set that the cache has are not those on the server.
//
// What to write depends on which clusters have the template. A cache that lacks
// the last writes, by this process or by one that was killed in the middle, would
// lead to a second work for a cluster, since works have generated names, or to
// one cluster more than the strategy allows.
func (c *Controller) behind(
	ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, works []*workv1.ManifestWork,
) (bool, error) {
	shown := map[types.UID]*workv1.ManifestWork{}
	for _, w := range works {
		shown[w.UID] = w
	}
	a := c.known.of(set)
	if a == nil {
		there, err := c.onServer(ctx, set)
		if err != nil || len(there) != len(works) {
			return true, err
		}
		for i := range there {
			if w := shown[there[i].UID]; w == nil || w.Generation != there[i].Generation {
				return true, nil
			}
		}
		c.known.begin(set)
		return false, nil
	}
	for uid, w := range a.written {
		there, err := c.shows(ctx, shown[uid], uid, w)
		if err != nil || !there {
			return true, err
		}
		delete(a.written, uid)
	}
	return false, nil
}

// shows reports whether the cache's copy of a work, nil for none, is not older than what was
// written.
func (c *Controller) shows(ctx context.Context, have *workv1.ManifestWork, uid types.UID, w written) (bool, error) {
	switch {
	case have == nil && w.generation == 0,
		have != nil && w.generation == 0 && !have.DeletionTimestamp.IsZero(),
		have != nil && w.generation > 0 && have.Generation >= w.generation:
		return true, nil
	case c.clock.Since(w.at) < catchUp:
		return false, nil
	}
	// The cache may never show it: somebody has deleted the work before, or the store was
	// restored from a backup.
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWork"))
	if err := client.IgnoreNotFound(c.live.Get(ctx, w.NamespacedName, there)); err != nil {
		return false, fmt.Errorf("read the work %s: %w", w.NamespacedName, err)
	}
	if there.UID != uid { // another one, or none
		return have == nil, nil
	}
	return have != nil && have.Generation == there.Generation, nil
}

// refused reports whether the server has said that it did not write. After any other error
// it may have written.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500
}
