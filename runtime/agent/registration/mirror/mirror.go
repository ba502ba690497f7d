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
//   - Its waits follow a fake clock in tests. A reflector in a cache does not.
package mirror

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
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
