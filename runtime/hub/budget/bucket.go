package budget

import "time"

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
