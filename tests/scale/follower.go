package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
)

// follower holds the objects of one kind as the hub shows them, also after the hub was away:
// what steps wait for. It is safe for concurrent use.
type follower struct {
	client  client.WithWatch
	list    client.ObjectList
	options []client.ListOption
	// changed is called, if it is set, for each object that is new or has changed; old is
	// nil for a new one.
	changed func(old, now client.Object)

	mu      sync.Mutex
	objects map[client.ObjectKey]client.Object
	wake    chan struct{} // closed at the next change
}

func newFollower(c client.WithWatch, list client.ObjectList, options ...client.ListOption) *follower {
	return &follower{
		client: c, list: list, options: options,
		objects: map[client.ObjectKey]client.Object{}, wake: make(chan struct{}),
	}
}

// run follows until ctx ends. It asks again at once when a watch has ended, as it is to
// measure the hub and not itself.
func (f *follower) run(ctx context.Context) {
	_ = retry.Until(ctx, clock.RealClock{}, retry.Quick(200*time.Millisecond), func(ctx context.Context) error {
		if err := f.follow(ctx); err != nil {
			return err
		}
		return fmt.Errorf("the watch has ended")
	})
}

func (f *follower) follow(ctx context.Context) error {
	list := f.list.DeepCopyObject().(client.ObjectList)
	if err := f.client.List(ctx, list, f.options...); err != nil {
		return err
	}
	there := map[client.ObjectKey]bool{}
	err := meta.EachListItem(list, func(o runtime.Object) error {
		there[client.ObjectKeyFromObject(o.(client.Object))] = true
		f.put(o.(client.Object))
		return nil
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	for key := range f.objects {
		if !there[key] {
			delete(f.objects, key)
		}
	}
	f.mu.Unlock()
	since := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	events, err := f.client.Watch(ctx, f.list, append(f.options[:len(f.options):len(f.options)], since)...)
	if err != nil {
		return err
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		o, ok := e.Object.(client.Object)
		switch {
		case !ok || e.Type == watch.Error:
			return fmt.Errorf("the watch has failed: %v", e.Object)
		case e.Type == watch.Deleted:
			f.remove(client.ObjectKeyFromObject(o))
		case e.Type != watch.Bookmark:
			f.put(o)
		}
	}
	return ctx.Err()
}

func (f *follower) put(o client.Object) {
	o.SetManagedFields(nil)
	f.mu.Lock()
	defer f.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	old := f.objects[key]
	f.objects[key] = o
	if f.changed != nil {
		f.changed(old, o)
	}
	f.notify()
}

func (f *follower) remove(key client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.objects, key)
	f.notify()
}

func (f *follower) notify() {
	close(f.wake)
	f.wake = make(chan struct{})
}

// count is how many of the objects are so, one that is not, and what is closed at the next
// change.
func (f *follower) count(is func(client.Object) bool) (n int, other client.Object, next <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.objects {
		if is(o) {
			n++
		} else {
			other = o
		}
	}
	return n, other, f.wake
}

// resolution is how exact the times of what followers wait for are: looking at each of
// many objects after each of their changes would cost more than the hub does.
const resolution = 5 * time.Millisecond

// await waits until as many objects are so as are wanted. It gives up when no object has
// changed for a while, and says what was missing.
func (f *follower) await(
	ctx context.Context, patience time.Duration, what string, want int, is func(client.Object) bool,
) error {
	since := time.Now()
	for {
		n, other, next := f.count(is)
		if n == want {
			return nil
		}
		if time.Since(since) > patience {
			return fmt.Errorf("%d of %d %s, and nothing has changed for %s; one of the others: %s",
				n, want, what, patience, describe(other))
		}
		select {
		case <-next:
			since = time.Now()
			time.Sleep(resolution)
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d %s: %w", n, want, what, context.Cause(ctx))
		}
	}
}

// describe names an object and says how it is.
func describe(o client.Object) string {
	if o == nil {
		return "none is there"
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprint(content["status"])
	if len(text) > 600 {
		text = text[:600] + "…"
	}
	return fmt.Sprintf("%s with the status %s", client.ObjectKeyFromObject(o), text)
}
