// Package renewals keeps most renewals of leases in memory. A lease that is renewed each minute
// is hardly ever read. To store a renewal is a third of what it costs: etcd, the watch cache, and
// all who watch. Admission, validation and the steps of a write cost as much again, and a renewal
// that changes nothing else needs none of them.
//
// One in three renewals is stored. Reads of an object or a list show the newest. A watch shows
// those that are stored, so what it says of a lease is older by two periods at most. When the
// process ends, those in memory are lost, as if they had not arrived yet: a server that starts
// has to give clients the time to renew, anyway.
//
// It is for a server that is alone: no other one knows what is in its memory.
package renewals

import (
	"bytes"
	"context"
	"path"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/apis/coordination"
	coordinationconversion "k8s.io/kubernetes/pkg/apis/coordination/v1"
	"k8s.io/utils/clock"
)

const (
	// between is how many renewals are kept in memory between two that are stored. Who goes by
	// a watch sees a lease that is older by as many periods, which is less than the five after
	// which a cluster counts as silent, also with agents whose periods are longer by a quarter.
	between = 2
	// late is after how many periods a renewal is stored, as it ends a silence.
	late = 2
	// drift is by how much the holder's clock may move against this one until a renewal is
	// stored, so that who watches hears of it.
	drift = 30 * time.Second
)

// Leases are the leases whose renewals are kept. It is safe for concurrent use.
type Leases struct {
	of    func(namespace, name string) bool
	plain func() bool
	clock clock.PassiveClock

	mu  sync.Mutex
	all map[types.NamespacedName]*lease
}

// New keeps the renewals of the leases that of selects, while plain reports that nobody but
// this process has a say in what is written.
func New(of func(namespace, name string) bool, plain func() bool, clk clock.PassiveClock) *Leases {
	return &Leases{of: of, plain: plain, clock: clk, all: map[types.NamespacedName]*lease{}}
}

// lease is what is known of one lease.
type lease struct {
	// writing is held while the store writes, and while a renewal is taken: all writes go
	// through this process, so one that holds it knows what is stored.
	writing sync.Mutex
	newest  atomic.Pointer[state] // nil while nothing is known
}

// state is a lease with its newest renewal. It is never changed.
type state struct {
	uid     types.UID
	version string // that is stored
	rest    []byte // the lease without its renewal, encoded
	renewed time.Time
	// ahead is by how much the holder's clock was ahead of this one at the renewal that is
	// stored.
	ahead time.Duration
	// period is the time between the last two renewals, 0 where only one is known.
	period time.Duration
	// room is how many more renewals may be kept in memory.
	room int
}

// hold returns a lease that nobody else writes until release is called.
func (k *Leases) hold(name types.NamespacedName) (l *lease, release func()) {
	for {
		k.mu.Lock()
		l := k.all[name]
		if l == nil {
			l = &lease{}
			k.all[name] = l
		}
		k.mu.Unlock()
		l.writing.Lock()
		if k.find(name) == l { // it was not forgotten meanwhile
			return l, l.writing.Unlock
		}
		l.writing.Unlock()
	}
}

func (k *Leases) find(name types.NamespacedName) *lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all[name]
}

// forget drops what is known of a lease. Who calls it holds the lease.
func (k *Leases) forget(name types.NamespacedName, l *lease) {
	l.newest.Store(nil) // also for a renewal that has found it already
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, name)
}

// renew takes a renewal into memory and returns true. It returns false for what has to go to the
// store: all that is more, or other, than the next renewal of the lease as it is.
func (k *Leases) renew(sent *coordinationv1.Lease) bool {
	l := k.find(types.NamespacedName{Namespace: sent.Namespace, Name: sent.Name})
	if l == nil || sent.Spec.RenewTime == nil || !l.writing.TryLock() {
		return false
	}
	defer l.writing.Unlock()
	s := l.newest.Load()
	if s == nil || s.room == 0 {
		return false
	}
	next := *s
	next.renewed, next.room = sent.Spec.RenewTime.Time, s.room-1
	next.period = next.renewed.Sub(s.renewed)
	moved := (next.renewed.Sub(k.clock.Now()) - s.ahead).Abs()
	if next.period <= 0 || next.period > late*s.period || moved > drift || !bytes.Equal(rest(sent), s.rest) {
		return false
	}
	l.newest.Store(&next)
	return true
}

// rest is a lease without its renewal, encoded; nil for one that can't be.
func rest(l *coordinationv1.Lease) []byte {
	without := *l
	without.Spec.RenewTime = nil
	encoded, _ := without.Marshal()
	return encoded
}

// wrote notes what the store has after an update.
func (l *lease) wrote(written runtime.Object, now time.Time) {
	before := l.newest.Swap(nil)
	internal, ok := written.(*coordination.Lease)
	if !ok || internal.Spec.RenewTime == nil || len(internal.ManagedFields) > 0 { // each write changes managed fields
		return
	}
	stored := &coordinationv1.Lease{}
	if err := coordinationconversion.Convert_coordination_Lease_To_v1_Lease(internal, stored, nil); err != nil {
		return
	}
	s := &state{
		uid: stored.UID, version: stored.ResourceVersion, rest: rest(stored),
		renewed: stored.Spec.RenewTime.Time, room: between,
	}
	s.ahead = s.renewed.Sub(now)
	if before != nil {
		s.period = s.renewed.Sub(before.renewed)
	}
	l.newest.Store(s)
}

// doubt has the next renewal stored, as nobody knows whether a write has arrived. What readers
// see stays, for as long as the store has the version that it is of.
func (l *lease) doubt() {
	if s := l.newest.Load(); s != nil {
		doubtful := *s
		doubtful.room = 0
		l.newest.Store(&doubtful)
	}
}

// newest is what is known of a lease, or nil.
func (k *Leases) newest(name types.NamespacedName) *state {
	if l := k.find(name); l != nil {
		return l.newest.Load()
	}
	return nil
}

// every is what is known of all leases.
func (k *Leases) every() map[types.NamespacedName]*state {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make(map[types.NamespacedName]*state, len(k.all))
	for name, l := range k.all {
		all[name] = l.newest.Load()
	}
	return all
}

// show puts the newest renewal into a lease that was read. before is what was known when the
// read began: a write meanwhile does not take a renewal away from who has read the version
// before it.
func (k *Leases) show(read *coordination.Lease, before *state) {
	for _, s := range []*state{before, k.newest(nameOf(read))} {
		if s != nil && s.uid == read.UID && s.version == read.ResourceVersion {
			read.Spec.RenewTime = &metav1.MicroTime{Time: s.renewed}
		}
	}
}

func nameOf(l *coordination.Lease) types.NamespacedName {
	return types.NamespacedName{Namespace: l.Namespace, Name: l.Name}
}

// Store is a store of leases that shows the renewals that are in memory, and has to see all
// writes.
func (k *Leases) Store(s storage.Interface) storage.Interface { return store{s, k} }

type store struct {
	storage.Interface
	leases *Leases
}

// write has the store write while nobody else does, and wrote note what it has then.
func (s store) write(key string, write func() error, wrote func(types.NamespacedName, *lease)) error {
	name := nameIn(key)
	if !s.leases.of(name.Namespace, name.Name) {
		return write()
	}
	l, release := s.leases.hold(name)
	defer release()
	err := write()
	switch {
	case err == nil:
		wrote(name, l)
	case storage.IsNotFound(err) || apierrors.IsNotFound(err):
		s.leases.forget(name, l)
	default:
		l.doubt()
	}
	return err
}

// nameIn is the name of the object of a key, whose last two parts are the namespace and the name.
func nameIn(key string) types.NamespacedName {
	return types.NamespacedName{Namespace: path.Base(path.Dir(key)), Name: path.Base(key)}
}

// Create implements storage.Interface. Of a new lease nothing is noted: its first renewal is
// stored, as those who watch wait for it.
func (s store) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return s.write(key, func() error { return s.Interface.Create(ctx, key, obj, out, ttl) }, s.leases.forget)
}

// Delete implements storage.Interface.
func (s store) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, o storage.DeleteOptions,
) error {
	return s.write(key, func() error {
		return s.Interface.Delete(ctx, key, out, preconditions, validate, cached, o)
	}, s.leases.forget)
}

// GuaranteedUpdate implements storage.Interface. What is updated has the newest renewal, so that
// a write of something else does not lose it.
func (s store) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object,
) error {
	showing := func(existing runtime.Object, m storage.ResponseMeta) (runtime.Object, *uint64, error) {
		if l, ok := existing.(*coordination.Lease); ok {
			s.leases.show(l, nil) // nobody else writes it now
		}
		return update(existing, m)
	}
	return s.write(key, func() error {
		return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, showing, cached)
	}, func(_ types.NamespacedName, l *lease) { l.wrote(destination, s.leases.clock.Now()) })
}

// Get implements storage.Interface.
func (s store) Get(ctx context.Context, key string, o storage.GetOptions, out runtime.Object) error {
	before := s.leases.newest(nameIn(key))
	err := s.Interface.Get(ctx, key, o, out)
	if l, ok := out.(*coordination.Lease); ok && err == nil {
		s.leases.show(l, before)
	}
	return err
}

// GetList implements storage.Interface.
func (s store) GetList(ctx context.Context, key string, o storage.ListOptions, out runtime.Object) error {
	before := s.leases.every()
	err := s.Interface.GetList(ctx, key, o, out)
	if list, ok := out.(*coordination.LeaseList); ok && err == nil {
		for i := range list.Items {
			s.leases.show(&list.Items[i], before[nameOf(&list.Items[i])])
		}
	}
	return err
}
