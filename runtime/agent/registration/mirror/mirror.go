// Package mirror keeps copies of the few objects that an agent looks at, by a
// list and a watch of exactly those. It imports internal/retry, the loop that it
// notifies, and nothing else of muster.
//
// Works, add-ons and user access use controller-runtime's caches, which do the same.
// Registration can't, because it depends on what a cache keeps to itself:
//   - It has to know when the hub answers again, not only that it does not:
//     client-go's reflectors report failures to an error handler, and no success.
//   - It has to try again at once when another identity sees that the cluster was
//     accepted. A reflector waits for up to 30 seconds, and can't be woken.
//   - A refused connection must be reported. A reflector that watches keeps it to
//     itself and tries again.
//   - It reads where the hub is each time that a watch is open again (OnOpen).
//   - Its waits follow a fake clock in tests. A reflector in a cache does not.
package mirror

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
)

// Options say what to mirror.
type Options[T client.Object] struct {
	Client client.WithWatch
	// List is an empty list of the kind.
	List client.ObjectList
	// Select narrows the list, by labels, fields or namespace.
	Select []client.ListOption

	// Strip, if set, removes from a copy what is not used.
	Strip func(T)
	// Same, if set, reports that an update changed nothing of interest.
	Same func(old, new T) bool
	// Report, if set, is called with every failure, and with nil for the first
	// success after the start or a failure. It must not block.
	Report func(error)

	Backoff *wait.Backoff // how to wait after errors; retry.Watch by default
	Clock   clock.Clock   // the real one by default
}

// Mirror holds copies of the selected objects. Make it with New, and Run it.
type Mirror[T client.Object] struct {
	o      Options[T]
	wake   loop.Signal
	filled chan struct{}

	mu          sync.Mutex
	objects     map[types.NamespacedName]T
	isFilled    bool
	subscribers []loop.Signal
	opened      []func()
}

// New makes a mirror, which is empty until it runs.
func New[T client.Object](o Options[T]) *Mirror[T] {
	if o.Backoff == nil {
		o.Backoff = ptr.To(retry.Watch())
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	return &Mirror[T]{
		o:       o,
		wake:    loop.NewSignal(),
		filled:  make(chan struct{}),
		objects: map[types.NamespacedName]T{},
	}
}

// Filled is closed once the mirror has shown the server's objects.
func (m *Mirror[T]) Filled() <-chan struct{} { return m.filled }

// Subscribe returns a signal that Notify was called with.
func (m *Mirror[T]) Subscribe() loop.Signal {
	news := loop.NewSignal()
	m.Notify(news)
	return news
}

// Notify sets news whenever something may have changed, and at once if the
// mirror is filled already.
func (m *Mirror[T]) Notify(news loop.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subscribers = append(m.subscribers, news)
	if m.isFilled {
		news.Set()
	}
}

// OnOpen has do called each time that the server has opened a watch. do must not block.
func (m *Mirror[T]) OnOpen(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opened = append(m.opened, do)
}

func (m *Mirror[T]) open() {
	m.mu.Lock()
	opened := m.opened
	m.mu.Unlock()
	for _, do := range opened {
		do()
	}
}

// Objects are all objects, in no order. They are shared: do not change them.
func (m *Mirror[T]) Objects() []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]T, 0, len(m.objects))
	for _, o := range m.objects {
		all = append(all, o)
	}
	return all
}

// Get returns one object, for mirrors of objects without a namespace.
func (m *Mirror[T]) Get(name string) (T, bool) {
	return m.GetNamespaced("", name)
}

// GetNamespaced returns one object.
func (m *Mirror[T]) GetNamespaced(namespace, name string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[types.NamespacedName{Namespace: namespace, Name: name}]
	return o, ok
}

// Wake ends the wait after a failure, and makes the next one short.
func (m *Mirror[T]) Wake() { m.wake.Set() }

func (m *Mirror[T]) replace(list client.ObjectList) error {
	objects := map[types.NamespacedName]T{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		o, ok := item.(T)
		if !ok {
			return fmt.Errorf("the server sent a %T among what was listed", item)
		}
		m.strip(o)
		objects[client.ObjectKeyFromObject(o)] = o
		return nil
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects = objects
	if !m.isFilled {
		m.isFilled = true
		close(m.filled)
	}
	m.notify()
	return nil
}

func (m *Mirror[T]) put(o T) {
	m.strip(o)
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	old, known := m.objects[key]
	m.objects[key] = o
	if !known || m.o.Same == nil || !m.o.Same(old, o) {
		m.notify()
	}
}

// Include adds an object that the caller has just created, unless the server
// has shown it already, so that the caller doesn't miss it meanwhile.
func (m *Mirror[T]) Include(o T) {
	m.strip(o)
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	if _, known := m.objects[key]; !known {
		m.objects[key] = o
	}
	m.notify()
}

func (m *Mirror[T]) remove(o T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, client.ObjectKeyFromObject(o))
	m.notify()
}

func (m *Mirror[T]) strip(o T) {
	o.SetManagedFields(nil)
	if m.o.Strip != nil {
		m.o.Strip(o)
	}
}

// notify is called with m.mu held.
func (m *Mirror[T]) notify() {
	for _, news := range m.subscribers {
		news.Set()
	}
}

// steady is after how long without a failure the next one is met with the
// shortest wait again.
const steady = 30 * time.Second

// Run mirrors until ctx ends.
func (m *Mirror[T]) Run(ctx context.Context) {
	backoff := retry.New(m.o.Clock, *m.o.Backoff)
	healthy := false
	for ctx.Err() == nil {
		start := m.o.Clock.Now()
		err := m.listAndWatch(ctx, func() {
			if !healthy {
				healthy = true
				m.o.Report(nil)
			}
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			healthy = false
			m.o.Report(err)
		}
		if m.o.Clock.Since(start) > steady {
			backoff.Reset()
		}
		backoff.Wait(ctx, m.wake)
	}
}

// listAndWatch returns when the objects have to be listed again. A watch that
// ends in order is continued where it ended.
func (m *Mirror[T]) listAndWatch(ctx context.Context, working func()) error {
	list := m.o.List.DeepCopyObject().(client.ObjectList)
	if err := m.o.Client.List(ctx, list, m.o.Select...); err != nil {
		return err
	}
	if err := m.replace(list); err != nil {
		return err
	}
	working()
	version := list.GetResourceVersion()
	for {
		start := m.o.Clock.Now()
		events, err := m.watch(ctx, &version)
		if err != nil || ctx.Err() != nil {
			return ignoreExpired(err)
		}
		if events == 0 && m.o.Clock.Since(start) < time.Second {
			return nil // the server ends watches at once: back off
		}
	}
}

func (m *Mirror[T]) watch(ctx context.Context, version *string) (events int, err error) {
	list := m.o.List.DeepCopyObject().(client.ObjectList)
	w, err := m.o.Client.Watch(ctx, list, append([]client.ListOption{&client.ListOptions{Raw: &metav1.ListOptions{
		Watch:               true,
		ResourceVersion:     *version,
		AllowWatchBookmarks: true,
		TimeoutSeconds:      retry.WatchSeconds(),
	}}}, m.o.Select...)...)
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	m.open()
	for {
		select {
		case <-ctx.Done():
			return events, nil
		case e, ok := <-w.ResultChan():
			if !ok {
				return events, nil
			}
			events++
			if err := m.handle(e, version); err != nil {
				return events, err
			}
		}
	}
}

func (m *Mirror[T]) handle(e watch.Event, version *string) error {
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	o, ok := e.Object.(T)
	if !ok {
		return fmt.Errorf("the server sent a %T among what was watched", e.Object)
	}
	*version = o.GetResourceVersion()
	switch e.Type {
	case watch.Added, watch.Modified:
		m.put(o)
	case watch.Deleted:
		m.remove(o)
	}
	return nil
}

// ignoreExpired makes no error of a watch that fell too far behind: listing
// again is all there is to do.
func ignoreExpired(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return nil
	}
	return err
}
