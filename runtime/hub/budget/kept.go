package budget

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// kept is what one namespace holds of one kind: what was counted in the store, and what
// owners have added since. It is at least what they keep, as deletions are not seen, so
// it is counted again before anything is refused. Before the first count it is what was
// added since the hub started; see firstCount.
type kept struct {
	objects int
	bytes   int64
	specs   int64     // bytes of the specs that were counted; part of bytes only where they count
	at      time.Time // of the last write
	counted time.Time // zero before the first count
}

// firstCount is the part of a budget that may be added before what is there is counted,
// so that the thousands of clusters of a hub that has started don't cost a count each.
const firstCount = 0.25

// allows reports whether a kind's budget, or a part of it, is not exceeded.
func (k *kept) allows(kind Kind, part float64) bool {
	return float64(k.objects) <= part*float64(kind.Objects) && float64(k.bytes) <= part*float64(k.room(kind))
}

// room is how many bytes may be there.
func (k *kept) room(kind Kind) int64 {
	if !kind.Reported {
		return kind.Bytes
	}
	return kind.Bytes + int64(k.objects)*reportBytes + k.specs
}

// checkKept refuses what a namespace has no room for.
func (b *Budgets) checkKept(ctx context.Context, name Name, kind Kind, w extension.Write) error {
	if w.Namespace == "" || kind.Objects == 0 && kind.Bytes == 0 {
		return nil
	}
	with, due := b.forecast(kind, w)
	if due {
		if err := b.count(ctx, kind, w); err != nil {
			logging.FromContext(ctx).Warn("a write was refused, as what its namespace holds can't be counted",
				"namespace", w.Namespace, "resource", w.Resource, "err", err)
			return apierrors.NewTooManyRequests(fmt.Sprintf("%s %q can't be stored for %s: "+
				"what the namespace %s holds can't be counted at present: try again",
				w.Resource, w.Name, name, w.Namespace), 1)
		}
		with, _ = b.forecast(kind, w)
	}
	if with.allows(kind, 1) || !w.Creates && with.objects > kind.Objects && with.bytes <= with.room(kind) {
		return nil
	}
	return apierrors.NewForbidden(w.Resource, w.Name, fmt.Errorf(
		"%s has used up its budget of %s in the namespace %s: with this write there would be "+
			"%d of %d objects with %d of %d KiB%s: delete those that are not needed",
		name, w.Resource, w.Namespace, with.objects, kind.Objects, with.bytes/kib, with.room(kind)/kib, kind.outsideSpec()))
}

// outsideSpec explains what counts.
func (k Kind) outsideSpec() string {
	if !k.Reported {
		return ""
	}
	return " outside their specs"
}

// forecast is what there would be with a write, and whether that is to be counted first.
func (b *Budgets) forecast(kind Kind, w extension.Write) (kept, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var with kept
	if k := b.kept[place(w)]; k != nil {
		with = *k
	}
	with.bytes += int64(w.Size - w.Before)
	if w.Creates {
		with.objects++
	}
	if with.counted.IsZero() {
		return with, !with.allows(kind, firstCount)
	}
	part := 1.0
	if b.Shared {
		part = firstCount // others may have added to what was counted
	}
	return with, !with.allows(kind, part) && b.clock.Since(with.counted) >= recountAfter
}

// count asks the store.
func (b *Budgets) count(ctx context.Context, kind Kind, w extension.Write) error {
	b.counting.Lock()
	defer b.counting.Unlock()
	if _, due := b.forecast(kind, w); !due {
		return nil // another request has counted
	}
	found, err := b.store.Kept(context.WithoutCancel(ctx), place(w))
	if err != nil {
		return err
	}
	counted := &kept{objects: found.Objects, bytes: found.Bytes}
	if kind.Reported {
		counted.specs, counted.bytes = found.SpecBytes, found.Bytes-found.SpecBytes
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	counted.at = b.clock.Now()
	counted.counted = counted.at
	b.kept[place(w)] = counted
	return nil
}

// add counts a write that is stored next.
func (b *Budgets) add(w extension.Write) {
	if w.Namespace == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.kept[place(w)]
	if k == nil {
		if w.Size == w.Before && !w.Creates {
			return
		}
		k = &kept{}
		b.kept[place(w)] = k
	}
	k.at = b.clock.Now()
	k.bytes = max(0, k.bytes+int64(w.Size-w.Before))
	if w.Creates {
		k.objects++
	}
}

// sweepEvery is how often buckets that are full again, and counts of namespaces that
// nobody has added to, are forgotten.
const sweepEvery = 10 * time.Minute

// bucket is what is left of a rate. It may fall below zero by one write, so that no
// write is too large for it.
type bucket struct {
	rate  Rate
	level float64
	at    time.Time
}

// bucket is the one of a key, filled up to now. The caller holds the lock.
func (b *Budgets) bucket(key string, rate Rate, now time.Time) *bucket {
	x := b.buckets[key]
	if x == nil {
		x = &bucket{rate: rate, level: rate.AtOnce, at: now}
		b.buckets[key] = x
	}
	x.refill(now)
	return x
}

func (x *bucket) refill(now time.Time) {
	if passed := now.Sub(x.at).Seconds(); passed > 0 {
		x.level = min(x.rate.AtOnce, x.level+passed*x.rate.PerSecond)
		x.at = now
	}
}

// wait is how long it takes until something is left; zero when something is.
func (x *bucket) wait() time.Duration {
	if x.level > 0 {
		return 0
	}
	return time.Duration((1 - x.level) / x.rate.PerSecond * float64(time.Second))
}

// sweep forgets what says no more than its absence. The caller holds the lock.
func (b *Budgets) sweep(now time.Time) {
	if now.Sub(b.swept) < sweepEvery {
		return
	}
	b.swept = now
	for key, x := range b.buckets {
		if x.refill(now); x.level >= x.rate.AtOnce {
			delete(b.buckets, key)
		}
	}
	for key, k := range b.kept {
		if now.Sub(k.at) >= sweepEvery {
			delete(b.kept, key)
		}
	}
}
