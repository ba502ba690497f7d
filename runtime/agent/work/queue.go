package work

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"

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
	log       *slog.Logger
	reconcile func(ctx context.Context, name string) (again time.Duration, err error)
	keys      workqueue.TypedRateLimitingInterface[string]
	running   sync.WaitGroup

	mu   sync.Mutex
	told map[string]string // why a name fails, as far as that was logged
}

// errWaiting marks what only takes its time: it is tried again without a word.
var errWaiting = errors.New("it is waited for")

func newQueue(what string, log *slog.Logger, reconcile func(context.Context, string) (time.Duration, error)) *queue {
	return &queue{
		what: what, log: log, reconcile: reconcile, told: map[string]string{},
		keys: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetry, maxRetry)),
	}
}

func (q *queue) add(name string)    { q.keys.Add(name) }
func (q *queue) Forget(name string) { q.keys.Forget(name) }

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

// Stop waits until the calls that are under way have returned.
func (q *queue) Stop() {
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
		q.complain(name, err)
		q.keys.AddRateLimited(name)
	default:
		q.keys.Forget(name)
		q.recovered(name)
		if again > 0 {
			q.keys.AddAfter(name, again)
		}
	}
	return true
}

// complain logs why a name fails, once for each cause: what fails a few times
// only, and what is waited for, is of no interest.
func (q *queue) complain(name string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failures(name) < passing || errors.Is(err, errWaiting) || q.told[name] == cause(err) {
		q.log.Debug("trying again", "what", q.what, "name", name, "err", err)
		return
	}
	q.told[name] = cause(err)
	q.log.Warn("this fails again and again, and is tried again at least once a minute; the conditions and events of the work on the hub tell more", "what", q.what, "name", name, "err", err)
}

// recovered notes that a name has not failed, and logs that it had.
func (q *queue) recovered(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.told[name]; ok {
		delete(q.told, name)
		q.log.Info("this no longer fails", "what", q.what, "name", name)
	}
}

// cause is an error's text without the numbers, which differ from one attempt to
// the next: versions, sizes, times.
func cause(err error) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return '0'
		}
		return r
	}, err.Error())
}
