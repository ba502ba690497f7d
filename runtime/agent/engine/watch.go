package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
)

// WatchOptions say what a Watch watches.
type WatchOptions[T client.Object] struct {
	Client client.WithWatch
	// Object and List are empty ones of the kind.
	Object T
	List   client.ObjectList
	// Select narrows the list, by labels, fields or namespace.
	Select []client.ListOption
	// Changed is called with each object that is new, changed or gone. before is nil
	// unless it has changed. It must not block.
	Changed func(before, now T)
	// Report is called with nil when the watch shows all objects, and with each
	// failure. It must not block.
	Report func(error)
}

// Watch shows the objects of a kind for as long as they are needed. What is needed
// for as long as the controllers run is in their caches.
type Watch[T client.Object] struct {
	informer toolscache.SharedIndexInformer
	failure  atomic.Pointer[error]
}

// StartWatch starts a watch that runs until ctx ends, as one of running.
func StartWatch[T client.Object](ctx context.Context, running *sync.WaitGroup, o WatchOptions[T]) (*Watch[T], error) {
	w := &Watch[T]{informer: newInformer(o.listWatch(), o.Object, 0, toolscache.Indexers{})}
	if err := w.informer.SetTransform(cache.TransformStripManagedFields()); err != nil {
		return nil, err
	}
	err := w.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *toolscache.Reflector, err error) {
		w.failure.Store(&err)
		o.Report(err)
	})
	if err != nil {
		return nil, err
	}
	handled, err := w.informer.AddEventHandler(o.handler())
	if err != nil {
		return nil, err
	}
	running.Go(func() { w.informer.RunWithContext(ctx) })
	running.Go(func() {
		select {
		case <-handled.HasSyncedChecker().Done():
			o.Report(nil)
		case <-ctx.Done():
		}
	})
	return w, nil
}

func (o WatchOptions[T]) listWatch() *toolscache.ListWatch {
	with := func(raw metav1.ListOptions) []client.ListOption {
		return append([]client.ListOption{&client.ListOptions{Raw: &raw}}, o.Select...)
	}
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			list := o.List.DeepCopyObject().(client.ObjectList)
			return list, o.Client.List(ctx, list, with(raw)...)
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (apiwatch.Interface, error) {
			return o.Client.Watch(ctx, o.List.DeepCopyObject().(client.ObjectList), with(raw)...)
		},
	}
}

func (o WatchOptions[T]) handler() toolscache.ResourceEventHandler {
	var none T
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { o.Changed(none, now.(T)) },
		UpdateFunc: func(before, now any) { o.Changed(before.(T), now.(T)) },
		DeleteFunc: func(now any) {
			if last, ok := now.(toolscache.DeletedFinalStateUnknown); ok {
				now = last.Obj
			}
			if gone, ok := now.(T); ok {
				o.Changed(none, gone)
			}
		},
	}
}

// IsComplete reports whether the watch shows all objects.
func (w *Watch[T]) IsComplete() bool { return w.informer.HasSynced() }

// Failure is why the watch failed last, nil when it never has.
func (w *Watch[T]) Failure() error {
	if err := w.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Get returns an object; one without a namespace has "". It is shared: do not change
// it.
func (w *Watch[T]) Get(namespace, name string) (object T, ok bool) {
	key := toolscache.ObjectName{Namespace: namespace, Name: name}.String()
	found, ok, err := w.informer.GetStore().GetByKey(key)
	if err != nil || !ok {
		return object, false
	}
	object, ok = found.(T)
	return object, ok
}

// Objects are all objects, in no order. They are shared: do not change them.
func (w *Watch[T]) Objects() []T {
	all := w.informer.GetStore().List()
	objects := make([]T, 0, len(all))
	for _, one := range all {
		if o, ok := one.(T); ok {
			objects = append(objects, o)
		}
	}
	return objects
}

// CopyTimeout is how long to wait for a copy that is up to date. A server that was
// restored from a backup may never send one: its versions start over. A busy one may
// send it much later.
const CopyTimeout = 5 * time.Second

// ErrOutdated is that a copy is older than what was written. The object is to be looked at
// again when the copy changes, and after CopyTimeout.
var ErrOutdated = errors.New("the copy is older than what was written")

// Written knows what a controller has written, so that it decides nothing by a copy
// from before: it would do everything twice. It is safe for concurrent use. Make it
// with NewWritten.
type Written struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	entries map[client.ObjectKey]written
}

type written struct {
	version string
	removed types.UID // of an object that was deleted, in place of the version
	at      time.Time
	awaited bool // a copy was found to be behind
}

// NewWritten knows of no writes.
func NewWritten(clk clock.PassiveClock) *Written {
	return &Written{clock: clk, entries: map[client.ObjectKey]written{}}
}

// Wrote notes an object as it is after a write.
func (w *Written) Wrote(o client.Object) {
	w.note(o, written{version: o.GetResourceVersion()})
}

// Removed notes that an object was deleted.
func (w *Written) Removed(o client.Object) {
	w.note(o, written{removed: o.GetUID()})
}

func (w *Written) note(o client.Object, e written) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.at = w.clock.Now()
	w.entries[client.ObjectKeyFromObject(o)] = e
}

// Read reads an object that others create, from a cache, or returns ErrOutdated. When the
// cache still has an older copy after CopyTimeout, Read gets the object from the server: a
// decision by the old copy would lead to a write that the server refuses as a conflict.
func (w *Written) Read(ctx context.Context, cached, server client.Reader, key client.ObjectKey, o client.Object) error {
	// The second attempt is for a copy that came while the first was compared, too
	// early to queue an object that was not waiting yet.
	for range 2 {
		if err := cached.Get(ctx, key, o); err != nil {
			return err // not found: it was deleted, as others have created it before
		}
		behind, overdue := w.compare(key, o)
		if !behind {
			return nil
		}
		if overdue {
			return w.readServer(ctx, server, key, o)
		}
	}
	return ErrOutdated
}

// readServer gets an object from the server in place of an old copy. The copy stays outdated.
func (w *Written) readServer(ctx context.Context, server client.Reader, key client.ObjectKey, o client.Object) error {
	err := server.Get(ctx, key, o)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.entries[key]
	switch {
	case !ok:
	case err != nil, older(o.GetResourceVersion(), e.version):
		delete(w.entries, key) // somebody else has removed it, or restored the server
	default:
		e.at, e.awaited = w.clock.Now(), false
		w.entries[key] = e
	}
	return err
}

// IsBehind reports whether a copy is older than what was written, for CopyTimeout at most.
// A copy without a version is that there is no such object. The caller looks again when
// the copy changes, and after CopyTimeout.
func (w *Written) IsBehind(key client.ObjectKey, o client.Object) bool {
	behind, overdue := w.compare(key, o)
	if overdue {
		w.Forget(key)
	}
	return behind && !overdue
}

// compare reports whether a copy is behind, and whether it has been for CopyTimeout.
func (w *Written) compare(key client.ObjectKey, o client.Object) (behind, overdue bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.entries[key]
	if !ok {
		return false, false
	}
	version := o.GetResourceVersion()
	behind = version == "" || older(version, e.version)
	if e.removed != "" {
		if version == "" {
			return false, false // or a copy that does not show it yet: the entry stays
		}
		behind = o.GetUID() == e.removed
	}
	if !behind {
		delete(w.entries, key)
		return false, false
	}
	e.awaited = true
	w.entries[key] = e
	return true, w.clock.Since(e.at) >= CopyTimeout
}

// IsAwaited reports whether a copy that is up to date is waited for.
func (w *Written) IsAwaited(key client.ObjectKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries[key].awaited
}

// Forget drops what is known of an object.
func (w *Written) Forget(key client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.entries, key)
}

// IsOlder reports whether an object is older than one that was read before it, as on a hub
// that was restored from a backup.
func IsOlder(o, before client.Object) bool {
	return older(o.GetResourceVersion(), before.GetResourceVersion())
}

// older compares resource versions, which are numbers that grow. What is none is not
// older.
func older(a, b string) bool {
	x, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return false
	}
	y, err := strconv.ParseUint(b, 10, 64)
	return err == nil && x < y
}

const (
	// LookPeriod is how often a hub is asked that has no use for a part of the agent.
	LookPeriod = time.Hour
	// Timeout bounds a reconcile of a part, and a question to the hub.
	Timeout = 30 * time.Second
	// Workers is how many objects a part looks after at a time.
	Workers = 8
)

// Part is what a part of the agent needs that not all hubs have a use for. All fields
// are required.
type Part struct {
	// ClusterName is the hub namespace of the cluster.
	ClusterName string
	// Namespace is the agent's own in the managed cluster.
	Namespace string
	// Hub and ManagedCluster are the connections to both sides.
	Hub, ManagedCluster *rest.Config
	// Log is the agent's logger, with the cluster's name.
	Log   *slog.Logger
	Clock clock.WithTicker
}

// Look asks the hub whether it has a use for a part, and returns what to run then; nil
// when it has none. hub and local cache nothing.
type Look func(ctx context.Context, hub, local client.WithWatch) (run func(context.Context) error, err error)

// Run runs a part until ctx ends, and returns nil then. It returns an error only when it
// cannot start. A hub without a use for it is asked again once an hour, and when run has
// ended, at once.
func (p Part) Run(ctx context.Context, name, userAgent string, look Look) error {
	hub, err := connect(p.Hub, userAgent)
	if err != nil {
		return fmt.Errorf("prepare %s: connect to the hub: %w", name, err)
	}
	local, err := connect(p.ManagedCluster, userAgent)
	if err != nil {
		return fmt.Errorf("prepare %s: connect to the managed cluster: %w", name, err)
	}
	failing := retry.New(p.Clock, retry.Start(time.Minute))
	var none retry.Once
	for ctx.Err() == nil {
		run, err := ask(ctx, look, hub, local)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was asked to end
		case err != nil: // also while the hub denies the cluster
			p.Log.Debug("cannot ask the hub for "+name+", trying again", "err", err)
		case run == nil:
			if none.Changed("none") {
				p.Log.Debug("the hub has no " + name + ", asking again once an hour")
			}
			retry.Sleep(ctx, p.Clock, LookPeriod, nil)
			continue
		default:
			none.Clear()
			start := p.Clock.Now()
			if err := run(ctx); err != nil && ctx.Err() == nil {
				p.Log.Debug("cannot look after "+name+", trying again", "err", err)
			}
			if p.Clock.Since(start) > time.Minute {
				failing.Reset()
			}
		}
		failing.Wait(ctx, nil)
	}
	return nil
}

// HubInfo is what a hub says about itself in the config map hubinfo.Name; nil for a hub that
// says nothing, as upstream's.
func HubInfo(ctx context.Context, hub client.Reader) (map[string]string, error) {
	info := &corev1.ConfigMap{}
	err := hub.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.Name}, info)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	return info.Data, err
}

func ask(ctx context.Context, look Look, hub, local client.WithWatch) (run func(context.Context) error, err error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return look(ctx, hub, local)
}
