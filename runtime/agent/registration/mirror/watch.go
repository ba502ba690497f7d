package mirror

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
)

// watchTimeout is after how long the server ends a watch, so that one that has
// silently died is noticed. Up to as much again is added.
const watchTimeout = 5 * time.Minute

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
	timeout := int64(wait.Jitter(watchTimeout, 1).Seconds())
	w, err := m.o.Client.Watch(ctx, list, append([]client.ListOption{&client.ListOptions{Raw: &metav1.ListOptions{
		Watch:               true,
		ResourceVersion:     *version,
		AllowWatchBookmarks: true,
		TimeoutSeconds:      &timeout,
	}}}, m.o.Select...)...)
	if err != nil {
		return 0, err
	}
	defer w.Stop()
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
