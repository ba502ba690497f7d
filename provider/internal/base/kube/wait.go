package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/muster-fleet/terraform-provider-muster/internal/tracing"
)

// rewatchAfter keeps a server that ends every watch at once from being asked in
// a tight loop.
const rewatchAfter = 500 * time.Millisecond

// Wait reads an object and follows it until done says so, fails, or ctx ends.
// done sees the state in obj; exists is false while there is no such object. The
// error of a context that ended is the context's; obj then holds what was seen
// last.
func (c *Client) Wait(
	ctx context.Context, obj Object, namespace, name string, done func(exists bool) (bool, error),
) error {
	list := ListOptions{Namespace: namespace, FieldSelector: "metadata.name=" + name}
	return c.until(ctx, obj, list,
		func(ctx context.Context) (string, bool, error) {
			current := fresh(obj).(Object)
			err := c.Get(ctx, current, namespace, name)
			if IsNotFound(err, name) {
				ok, err := done(false)
				return "", ok, err
			}
			if err != nil {
				return "", false, err
			}
			assign(obj, current)
			ok, err := done(true)
			return current.GetResourceVersion(), ok, err
		},
		func(event watch.Event) (bool, error) {
			current, ok := event.Object.(Object)
			if !ok || current.GetName() != name {
				return false, nil
			}
			if event.Type == watch.Deleted {
				return done(false)
			}
			assign(obj, current)
			return done(true)
		})
}

// WaitList is WaitObjects for callers that look at a list: done finds in it the objects by
// namespace and name. item is an object of the list's kind.
func (c *Client) WaitList(
	ctx context.Context, list runtime.Object, item Object, options ListOptions, done func() (bool, error),
) error {
	return c.WaitObjects(ctx, list, item, options, func(all map[string]Object) (bool, error) {
		var items []runtime.Object
		for _, key := range slices.Sorted(maps.Keys(all)) {
			items = append(items, all[key])
		}
		if err := meta.SetList(list, items); err != nil {
			return false, err
		}
		return done()
	})
}

// WaitGone waits until the object with this UID does not exist any more; another
// one of the same name does not count. obj holds what was seen last.
func (c *Client) WaitGone(
	ctx context.Context, obj Object, namespace, name string, uid types.UID,
) (err error) {
	ctx, span := tracing.Start(ctx, "wait until it is gone", tracing.ObjectKindKey.String(KindName(obj)),
		tracing.NamespaceKey.String(namespace), tracing.ObjectNameKey.String(name))
	defer func() { tracing.End(span, err, "not met") }()
	return c.Wait(ctx, obj, namespace, name, func(exists bool) (bool, error) {
		return !exists || (uid != "" && obj.GetUID() != uid), nil
	})
}

// until alternates between reading and watching. read returns the resource
// version to watch from.
func (c *Client) until(
	ctx context.Context, kind runtime.Object, options ListOptions,
	read func(context.Context) (version string, done bool, err error),
	event func(watch.Event) (bool, error),
) error {
	for {
		version, done, err := read(ctx)
		if ctx.Err() != nil {
			return ended(ctx, err)
		}
		if err != nil || done {
			return err
		}
		done, err = c.follow(ctx, kind, options, version, event)
		if ctx.Err() != nil {
			return ended(ctx, err)
		}
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.clock.After(rewatchAfter):
		}
	}
}

// follow watches until event is done or the watch ends. A watch that cannot go
// on from its version, or breaks, has ended: the caller reads again.
func (c *Client) follow(
	ctx context.Context, kind runtime.Object, options ListOptions, version string,
	event func(watch.Event) (bool, error),
) (bool, error) {
	request, err := c.request(kind, http.MethodGet, options.Namespace, "")
	if err != nil {
		return false, err
	}
	if version == "" {
		// The object is not there: any event since is news, and a server without
		// a version to start from reports what exists by then.
		version = "0"
	}
	watcher, err := selecting(request, options).
		Param("watch", "true").
		Param("resourceVersion", version).
		Watch(ctx)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("watch: %w", err)
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case e, open := <-watcher.ResultChan():
			switch {
			case !open || e.Type == watch.Error:
				return false, nil
			case e.Type == watch.Bookmark:
				continue
			}
			if done, err := event(e); done || err != nil {
				return done, err
			}
		}
	}
}

// WaitObjects lists objects and follows their changes until done says so, fails,
// or ctx ends. done sees all of them, by "namespace/name", or by "name" where they
// have no namespace. It lists once, whatever their number.
func (c *Client) WaitObjects(
	ctx context.Context, list runtime.Object, item Object, options ListOptions,
	done func(map[string]Object) (bool, error),
) error {
	var objects map[string]Object
	return c.until(ctx, item, options,
		func(ctx context.Context) (string, bool, error) {
			current := fresh(list)
			if err := c.List(ctx, current, options); err != nil {
				return "", false, err
			}
			objects = map[string]Object{}
			err := meta.EachListItem(current, func(item runtime.Object) error {
				if object, ok := item.(Object); ok {
					objects[keyOf(object)] = object
				}
				return nil
			})
			if err != nil {
				return "", false, err
			}
			accessor, err := meta.ListAccessor(current)
			if err != nil {
				return "", false, err
			}
			ok, err := done(objects)
			return accessor.GetResourceVersion(), ok, err
		},
		func(event watch.Event) (bool, error) {
			object, ok := event.Object.(Object)
			if !ok {
				return false, nil
			}
			if objects[keyOf(object)] = object; event.Type == watch.Deleted {
				delete(objects, keyOf(object))
			}
			return done(objects)
		})
}

func keyOf(object Object) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

// Trouble is something that keeps what is waited for from coming.
type Trouble struct {
	// Text names it: the same text is the same trouble, still there.
	Text string
	// After is how long it has to last until the wait ends.
	After time.Duration
}

// GaveUpError is why a wait ended before its time: a trouble that has lasted.
type GaveUpError struct{ Trouble }

// Error implements error.
func (e *GaveUpError) Error() string { return e.Text }

// WaitOrGiveUp runs a wait, and ends it with a *GaveUpError when a trouble has lasted
// for as long as it says. The wait notes, with each look, all troubles that there are;
// those that it no longer notes are over. note is safe for concurrent use.
func WaitOrGiveUp(ctx context.Context, wait func(ctx context.Context, note func(...Trouble)) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var mu sync.Mutex
	timers := map[string]*time.Timer{}
	note := func(troubles ...Trouble) {
		mu.Lock()
		defer mu.Unlock()
		present := map[string]bool{}
		for _, t := range troubles {
			present[t.Text] = true
			if timers[t.Text] == nil {
				timers[t.Text] = time.AfterFunc(t.After, func() { end(&GaveUpError{t}) })
			}
		}
		for text, timer := range timers {
			if !present[text] {
				timer.Stop()
				delete(timers, text)
			}
		}
	}
	err := wait(ctx, note)
	note()
	var gaveUp *GaveUpError
	if err != nil && errors.As(context.Cause(ctx), &gaveUp) {
		return gaveUp
	}
	return err
}

// First runs waits side by side until one of them ends, ends the others, and returns
// the error of the first.
func First(ctx context.Context, waits ...func(ctx context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	results := make(chan error, len(waits))
	var running sync.WaitGroup
	for _, wait := range waits {
		running.Go(func() { results <- wait(ctx) })
	}
	err := <-results
	stop()
	running.Wait()
	return err
}
