package work

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// How long a failed key waits before it is tried again.
const (
	minRetry = 5 * time.Millisecond
	maxRetry = time.Minute
)

// queue calls a function for each name, one call at a time for each, and again
// when the function says so.
type queue struct {
	what      string
	reconcile func(ctx context.Context, name string) (again time.Duration, err error)
	keys      workqueue.TypedRateLimitingInterface[string]
	running   sync.WaitGroup
}

func newQueue(what string, reconcile func(context.Context, string) (time.Duration, error)) *queue {
	return &queue{
		what: what, reconcile: reconcile,
		keys: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetry, maxRetry)),
	}
}

func (q *queue) add(name string)    { q.keys.Add(name) }
func (q *queue) forget(name string) { q.keys.Forget(name) }

// failures is how often in a row a name has failed.
func (q *queue) failures(name string) int { return q.keys.NumRequeues(name) }

func (q *queue) run(ctx context.Context, workers int) {
	for range workers {
		q.running.Go(func() {
			for q.next(ctx) {
			}
		})
	}
}

// stop waits until the calls that are under way have returned.
func (q *queue) stop() {
	q.keys.ShutDown()
	q.running.Wait()
}

func (q *queue) next(ctx context.Context) bool {
	name, shutdown := q.keys.Get()
	if shutdown {
		return false
	}
	defer q.keys.Done(name)
	again, err := q.reconcile(ctx, name)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		slog.Debug("trying again", "what", q.what, "name", name, "err", err)
		q.keys.AddRateLimited(name)
	default:
		q.keys.Forget(name)
		if again > 0 {
			q.keys.AddAfter(name, again)
		}
	}
	return true
}
