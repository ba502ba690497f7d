package kube

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
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

// WaitList reads a list and reads it again with every change until done says
// so, fails, or ctx ends. item is an object of the list's kind.
func (c *Client) WaitList(
	ctx context.Context, list runtime.Object, item Object, options ListOptions, done func() (bool, error),
) error {
	read := func(ctx context.Context) (string, bool, error) {
		current := fresh(list)
		if err := c.List(ctx, current, options); err != nil {
			return "", false, err
		}
		assign(list, current)
		ok, err := done()
		accessor, accessErr := meta.ListAccessor(current)
		if accessErr != nil {
			return "", false, accessErr
		}
		return accessor.GetResourceVersion(), ok, err
	}
	return c.until(ctx, item, options, read, func(watch.Event) (bool, error) {
		_, ok, err := read(ctx)
		return ok, err
	})
}

// WaitGone waits until the object with this UID does not exist any more; another
// one of the same name does not count. obj holds what was seen last.
func (c *Client) WaitGone(ctx context.Context, obj Object, namespace, name string, uid types.UID) error {
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
