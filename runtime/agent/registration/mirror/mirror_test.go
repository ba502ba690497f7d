package mirror_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/fakewatch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
)

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// run mirrors the nodes of a server until the test ends.
func run(t *testing.T, c client.WithWatch, change func(*mirror.Options[*corev1.Node])) *mirror.Mirror[*corev1.Node] {
	t.Helper()
	o := mirror.Options[*corev1.Node]{Client: c, List: &corev1.NodeList{}}
	if change != nil {
		change(&o)
	}
	m := mirror.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return m
}

// watchable is a server that reports when a watch is open.
func watchable(objects ...client.Object) (c client.WithWatch, open <-chan struct{}) {
	return fakewatch.Client(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build())
}

func await(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(testkit.Timeout):
		t.Fatalf("%s did not happen", what)
	}
}

func TestFollowsTheServer(t *testing.T) {
	c, open := watchable(node("a"))
	m := run(t, c, nil)
	await(t, "the first objects", m.Filled())
	await(t, "the watch", open)
	if _, ok := m.Get("a"); !ok || len(m.Objects()) != 1 {
		t.Fatalf("got %v", m.Objects())
	}
	changed := m.Subscribe()
	await(t, "the notice that a filled mirror gives", changed)

	b := node("b")
	if err := c.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for len(m.Objects()) != 2 {
		await(t, "b", changed)
	}
	b.Spec.Unschedulable = true
	if err := c.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for got, _ := m.Get("b"); !got.Spec.Unschedulable; got, _ = m.Get("b") {
		await(t, "the change of b", changed)
	}
	if err := c.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for len(m.Objects()) != 1 {
		await(t, "the removal of b", changed)
	}
}

func TestChangesOfNoInterestAreNotReported(t *testing.T) {
	c, open := watchable(node("a"))
	m := run(t, c, func(o *mirror.Options[*corev1.Node]) {
		o.Same = func(old, new *corev1.Node) bool { return old.Spec.Unschedulable == new.Spec.Unschedulable }
	})
	await(t, "the first objects", m.Filled())
	await(t, "the watch", open)
	changed := m.Subscribe()
	await(t, "the notice that a filled mirror gives", changed)
	a, _ := m.Get("a")
	a = a.DeepCopy()
	a.Labels = map[string]string{"x": "y"}
	if err := c.Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	a.Spec.Unschedulable = true
	if err := c.Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	await(t, "the change of interest", changed)
	if got, _ := m.Get("a"); !got.Spec.Unschedulable {
		t.Error("told of the change of a label")
	}
}

// failing is a server that refuses to list as long as broken is set.
func failing(broken *atomic.Bool, lists *atomic.Int32) client.WithWatch {
	return interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(node("a")).Build(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			lists.Add(1)
			if broken.Load() {
				return errors.New("no")
			}
			return c.List(ctx, list, o...)
		},
	})
}

func TestFailureAndRecoveryAreReported(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	reports := make(chan error, 10)
	m := run(t, failing(&broken, &atomic.Int32{}), func(o *mirror.Options[*corev1.Node]) {
		o.Report = func(err error) {
			if err != nil {
				broken.Store(false)
			}
			reports <- err
		}
		o.Backoff = &wait.Backoff{Duration: time.Millisecond}
	})
	if err := <-reports; err == nil || err.Error() != "no" {
		t.Fatalf("reported %v, want the failure", err)
	}
	if err := <-reports; err != nil {
		t.Fatalf("reported %v, want the recovery", err)
	}
	await(t, "the first objects", m.Filled())
}

func TestWakeEndsTheWaitAfterAFailure(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	failed := make(chan struct{}, 10)
	m := run(t, failing(&broken, &atomic.Int32{}), func(o *mirror.Options[*corev1.Node]) {
		o.Report = func(err error) {
			if err != nil {
				failed <- struct{}{}
			}
		}
		o.Backoff = &wait.Backoff{Duration: time.Hour}
	})
	await(t, "the failure", failed)
	broken.Store(false)
	m.Wake()
	await(t, "the first objects", m.Filled())
}

func TestIncludeDoesNotReplaceWhatTheServerShowed(t *testing.T) {
	shown := node("a")
	shown.Spec.Unschedulable = true
	m := run(t, fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(shown).Build(), nil)
	await(t, "the first objects", m.Filled())
	m.Include(node("a"))
	m.Include(node("b"))
	if got, _ := m.Get("a"); !got.Spec.Unschedulable {
		t.Error("the server's object was replaced")
	}
	if _, ok := m.Get("b"); !ok {
		t.Error("the new object is missing")
	}
}

// Each opened watch is reported, and one that the server refuses is not.
func TestOpenedWatchesAreReported(t *testing.T) {
	var watches []*watch.FakeWatcher
	var mu sync.Mutex
	server := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(node("a")).Build()
	c := interceptor.NewClient(server, interceptor.Funcs{
		Watch: func(
			context.Context, client.WithWatch, client.ObjectList, ...client.ListOption,
		) (watch.Interface, error) {
			mu.Lock()
			defer mu.Unlock()
			if len(watches) == 1 {
				watches = append(watches, nil)
				return nil, errors.New("no")
			}
			w := watch.NewFake()
			watches = append(watches, w)
			return w, nil
		},
	})
	opened := make(chan int, 9)
	m := mirror.New(mirror.Options[*corev1.Node]{
		Client: c, List: &corev1.NodeList{}, Backoff: &wait.Backoff{Duration: time.Millisecond},
	})
	m.OnOpen(func() {
		mu.Lock()
		defer mu.Unlock()
		opened <- len(watches)
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	defer running.Wait()
	defer cancel()
	if n := <-opened; n != 1 {
		t.Errorf("told after %d watches", n)
	}
	watches[0].Stop() // the second one is refused
	if n := <-opened; n != 3 {
		t.Errorf("told after %d watches, want 3: of the one that was refused nobody is told", n)
	}
}
