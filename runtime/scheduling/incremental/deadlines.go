package incremental

import "time"

// deadline is when something about a cluster expires. Zero means never.
type deadline struct {
	// due is when the cluster has to be evaluated again.
	due time.Time
	// wake is when the placement has to be scheduled again because of it.
	wake time.Time
}

// deadlines are the deadlines of a placement's clusters by slot, with the
// earliest ones.
type deadlines struct {
	of       map[uint32]deadline
	earliest deadline
	// stale is whether the earliest may have been removed.
	stale bool
}

// set replaces the deadline of a cluster.
func (x *deadlines) set(slot uint32, d deadline) {
	was, had := x.of[slot]
	if !had && d == (deadline{}) {
		return
	}
	x.stale = x.stale || had && (atFirst(was.due, x.earliest.due) || atFirst(was.wake, x.earliest.wake))
	if d == (deadline{}) {
		delete(x.of, slot)
		return
	}
	if x.of == nil {
		x.of = map[uint32]deadline{}
	}
	x.of[slot] = d
	x.earliest = deadline{due: sooner(x.earliest.due, d.due), wake: sooner(x.earliest.wake, d.wake)}
}

// atFirst reports whether a time is the earliest, so that another one has to be
// found when it is removed.
func atFirst(t, earliest time.Time) bool { return !t.IsZero() && t.Equal(earliest) }

// first is the earliest deadline.
func (x *deadlines) first() deadline {
	if x.stale {
		x.earliest, x.stale = deadline{}, false
		for _, d := range x.of {
			x.earliest = deadline{due: sooner(x.earliest.due, d.due), wake: sooner(x.earliest.wake, d.wake)}
		}
	}
	return x.earliest
}

// past calls a function with every slot that has to be evaluated again.
func (x *deadlines) past(now time.Time, f func(slot uint32)) {
	if due := x.first().due; due.IsZero() || now.Before(due) {
		return
	}
	for slot, d := range x.of {
		if !d.due.IsZero() && !now.Before(d.due) {
			f(slot)
		}
	}
}

// sooner is the earlier of two times, where zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
