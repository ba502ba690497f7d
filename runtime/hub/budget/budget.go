// Package budget bounds what clusters, bootstrap tokens and users can make the hub keep:
// objects, bytes, and how fast they come. It is asked when an object is about to be
// stored, so it holds for all kinds, those that are added later as well. The limits are
// in one place, Default. It must not import the controllers.
package budget

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// Budgets decides what is stored for whom. It is safe for concurrent use.
//
// Rates are counted in this process: with several replicas of a hub an owner that uses
// all of them has so many times the rate. What is kept is counted in the store, which
// the replicas share.
type Budgets struct {
	// Shared says that replicas of the hub may write to the same store. Then a count of
	// more than a part of a budget, firstCount, is believed for recountAfter only. It is set
	// before the first request.
	Shared bool

	limits Limits
	owners Owners
	clock  clock.PassiveClock
	store  extension.Store
	fill   fill

	counting sync.Mutex // one count at a time: each may read megabytes

	mu      sync.Mutex
	buckets map[string]*bucket
	kept    map[string]*kept
	changes map[Name]*changes
	swept   time.Time
}

// New makes the budgets of a hub.
func New(limits Limits, owners Owners, clk clock.PassiveClock) *Budgets {
	return &Budgets{
		limits: limits, owners: owners, clock: clk,
		buckets: map[string]*bucket{}, kept: map[string]*kept{}, changes: map[Name]*changes{},
	}
}

var _ extension.Meter = &Budgets{}

// SetStore is part of extension.Meter.
func (b *Budgets) SetStore(s extension.Store) { b.store = s }

// Meters is part of extension.Meter.
func (b *Budgets) Meters(u user.Info) bool {
	_, limited := b.owners.Of(u)
	return limited
}

// Charge is part of extension.Meter. It refuses what an owner has no room for: 403
// for too large an object or too many of them, 429 with the time after which to try
// again for too many at once, and 507 while the store is filling up. The beginning of a
// deletion always passes, and what makes an object smaller passes all but the rate.
func (b *Budgets) Charge(ctx context.Context, w extension.Write) error {
	name, limited := b.owners.Of(w.User)
	if !limited || w.Deletes {
		return nil
	}
	owner := b.limits.of(name.Class)
	kind := owner.of(w.Resource)
	if grown := w.Size - w.Before; grown > 0 {
		if err := checkObject(name, kind, w); err != nil {
			return refuse("object", name, err)
		}
		if err := b.checkStore(ctx, name, owner, w); err != nil {
			return refuse("store", name, err)
		}
		if err := b.checkKept(ctx, name, kind, w); err != nil {
			return refuse("kept", name, err)
		}
	}
	if err := b.spend(name, owner, kind, w); err != nil {
		return refuse("rate", name, err)
	}
	b.add(w)
	return nil
}

// bodyTimes is how many times the greatest size of an object a request's body may have:
// it may be written with more bytes than what is stored.
const bodyTimes = 4

// Guard refuses, before they are read, bodies of requests that can't be stored for their
// size.
func (b *Budgets) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, described := request.RequestInfoFrom(r.Context())
		u, known := request.UserFrom(r.Context())
		if !described || !known || r.ContentLength <= 0 || !info.IsResourceRequest || info.Subresource != "" {
			next.ServeHTTP(w, r)
			return
		}
		name, limited := b.owners.Of(u)
		owner := b.limits.of(name.Class)
		resource := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
		greatest := owner.of(resource).Object
		if !limited || greatest == 0 || r.ContentLength <= int64(bodyTimes*greatest) {
			next.ServeHTTP(w, r)
			return
		}
		err := tooLarge(name, resource, info.Name, r.ContentLength, greatest)
		_ = refuse("object", name, err)
		extension.Refuse(w, err)
	})
}

func tooLarge(name Name, resource schema.GroupResource, object string, size int64, greatest int) *apierrors.StatusError {
	return apierrors.NewForbidden(resource, object, fmt.Errorf("it takes %d bytes, and %s may write %s of at most %d: "+
		"make it smaller, its annotations, labels and managed fields included", size, name, resource.Resource, greatest))
}

func refuse(budget string, name Name, err error) error {
	refusals.WithLabelValues(budget, string(name.Class)).Inc()
	return err
}

// checkObject refuses an object that is too large.
func checkObject(name Name, kind Kind, w extension.Write) error {
	if kind.Object == 0 || w.Size <= kind.Object || !w.Creates && w.Size <= w.Before+slack {
		return nil
	}
	return tooLarge(name, w.Resource, w.Name, int64(w.Size), kind.Object)
}

// checkStore refuses what makes the store larger while it is filling up.
func (b *Budgets) checkStore(ctx context.Context, name Name, owner Owner, w extension.Write) error {
	if !w.Creates && w.Size <= smallObject {
		return nil
	}
	size, err := b.Size(ctx)
	if err != nil || float64(size.InUse) <= owner.Full*float64(size.Quota) {
		return nil //nolint:nilerr // a store that does not say its size does not take the write either
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: "InsufficientStorage",
		Details: &metav1.StatusDetails{Group: w.Resource.Group, Kind: w.Resource.Resource, Name: w.Name},
		Message: fmt.Sprintf("%s %q can't be stored for %s: the hub's store is filling up, "+
			"%d MiB of its quota of %d MiB are in use, and above %.0f %% only administrators and the hub itself add to it: "+
			"delete what is not needed, or ask an administrator of the hub to (docs/security.md, Budgets)",
			w.Resource, w.Name, name, size.InUse/mib, size.Quota/mib, 100*owner.Full),
	}}
}

// spend takes a write from the owner's rates, or refuses it and takes nothing.
func (b *Budgets) spend(name Name, owner Owner, kind Kind, w extension.Write) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	b.sweep(now)
	bytes := b.bucket(name.String()+"/bytes", owner.Written, now)
	var created *bucket
	if w.Creates {
		created = b.bucket(name.String()+"/"+w.Resource.String(), kind.Creations, now)
		if wait := created.wait(); wait > 0 {
			return tooMany(wait, fmt.Sprintf("%s has used up its budget of new %s: %.0f at once and %s; its programs create too many",
				name, w.Resource, kind.Creations.AtOnce, perTime(kind.Creations.PerSecond)))
		}
	}
	if wait := bytes.wait(); wait > 0 && w.Size >= w.Before {
		return tooMany(wait, fmt.Sprintf("%s has used up its budget of bytes written: %.0f KiB at once and %.0f KiB a second; "+
			"its programs write too much or too often", name, owner.Written.AtOnce/kib, owner.Written.PerSecond/kib))
	}
	bytes.level -= float64(w.Size)
	if created != nil {
		created.level--
	}
	return nil
}

func perTime(perSecond float64) string {
	if perSecond >= 1 {
		return fmt.Sprintf("%.0f a second", perSecond)
	}
	return fmt.Sprintf("one in %.0f seconds", 1/perSecond)
}

// tooMany asks the client to come back.
func tooMany(wait time.Duration, message string) error {
	seconds := int(math.Ceil(min(wait, maxRetry).Seconds()))
	return apierrors.NewTooManyRequests(fmt.Sprintf("%s: try again in %d seconds (docs/security.md, Budgets)", message, seconds), seconds)
}

// of are the limits of a class.
func (l *Limits) of(c Class) Owner {
	switch c {
	case OfCluster:
		return l.Cluster
	case OfToken:
		return l.Token
	}
	return l.User
}

// of are the limits of the kind that is written.
func (o Owner) of(resource schema.GroupResource) Kind {
	if resource.Resource == "events" {
		resource.Group = "" // of two groups, and stored in one
	}
	kind, ok := o.Kinds[resource]
	if !ok {
		return o.Default
	}
	if kind.Creations.AtOnce == 0 {
		kind.Creations = o.Default.Creations
	}
	return kind
}

// fill is how full the store was a moment ago.
type fill struct {
	mu   sync.Mutex
	at   time.Time
	size extension.StoreSize
	full bool
}

// Size is how full the store is, or was a moment ago. It reports in the log when the
// first and the last of the limits is passed.
func (b *Budgets) Size(ctx context.Context) (extension.StoreSize, error) {
	b.fill.mu.Lock()
	defer b.fill.mu.Unlock()
	now := b.clock.Now()
	if !b.fill.at.IsZero() && now.Sub(b.fill.at) < sizeAge {
		return b.fill.size, nil
	}
	size, err := b.store.Size(context.WithoutCancel(ctx))
	if err != nil {
		return size, err
	}
	b.fill.size, b.fill.at = size, now
	storeBytes.WithLabelValues("in_use").Set(float64(size.InUse))
	storeBytes.WithLabelValues("file").Set(float64(size.File))
	storeBytes.WithLabelValues("quota").Set(float64(size.Quota))
	if full := b.Filling(size); full != b.fill.full {
		b.fill.full = full
		log := logging.FromContext(ctx)
		if full {
			log.Warn("the store is filling up: agents and bootstrap tokens can create nothing any more; "+
				"delete what is not needed",
				"inUseMiB", size.InUse/mib, "quotaMiB", size.Quota/mib)
		} else {
			log.Info("the store has room again: agents and bootstrap tokens can create objects", "inUseMiB", size.InUse/mib)
		}
	}
	return size, nil
}

// Filling reports whether the store is so full that agents and tokens are refused.
func (b *Budgets) Filling(size extension.StoreSize) bool {
	return float64(size.InUse) > b.limits.Cluster.Full*float64(size.Quota)
}

// place is what the objects of the same kind and namespace have in common.
func place(w extension.Write) string { return w.Key[:strings.LastIndex(w.Key, "/")+1] }

// ServeHTTP answers how full the store is, at hubinfo.StorePath.
func (b *Budgets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	size, err := b.Size(r.Context())
	if err != nil {
		extension.Refuse(w, apierrors.NewInternalError(fmt.Errorf("ask how full the store is: %w", err)))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(hubinfo.Store{InUse: size.InUse, File: size.File, Quota: size.Quota, Filling: b.Filling(size)})
}

const (
	// freeChange is the size up to which objects are changed without a turn, in bytes.
	freeChange = 32 * kib
	// changed is how many bytes of objects an owner changes at a time. A change takes
	// up to a hundred times the object's size in memory, however small the patch is.
	changed = 256 * kib
)

// changes are the objects that an owner changes at present.
type changes struct {
	turn  *semaphore.Weighted
	users int // protected by Budgets.mu
}

// Hold is part of extension.Meter.
func (b *Budgets) Hold(ctx context.Context, u user.Info, bytes int) (release func(), err error) {
	name, limited := b.owners.Of(u)
	if !limited || bytes <= freeChange {
		return func() {}, nil
	}
	size := int64(min(bytes, changed))
	b.mu.Lock()
	own := b.changes[name]
	if own == nil {
		own = &changes{turn: semaphore.NewWeighted(changed)}
		b.changes[name] = own
	}
	own.users++
	b.mu.Unlock()
	leave := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(b.changes, name)
		}
	}
	if err := own.turn.Acquire(ctx, size); err != nil {
		leave()
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%s changes too many large objects at a time: try again", name), 1)
	}
	return func() {
		own.turn.Release(size)
		leave()
	}, nil
}

var (
	refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_budget_refusals_total",
		Help: "Writes that were refused as their author had used up a budget, " +
			"by the budget (object, kept, rate, store) and by whose it is (cluster, token, user).",
	}, []string{"budget", "owner"})
	storeBytes = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "muster_store_bytes",
		Help: "Size of the hub's store: bytes in use, of the file, and of the quota, when it was last looked at.",
	}, []string{"what"})
)

func init() { metrics.Registry.MustRegister(refusals, storeBytes) }
