package work

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
)

const (
	// minRetry and maxRetry are how long a failed work waits before it is tried
	// again: longer after each failure.
	minRetry = 5 * time.Millisecond
	maxRetry = time.Minute
	// passing is how many attempts may fail before it is reported: an instance of
	// a definition fails until the cluster serves it, which takes a moment.
	passing = 6
)

// errWaiting marks what only takes its time: it is tried again without a word.
var errWaiting = errors.New("it is waited for")

// requests is the workqueue of a controller.
type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// queue gives access to the workqueue of a controller, for what the controller
// does not watch. It is one of the controller's sources.
type queue struct {
	namespace string
	limiter   workqueue.TypedRateLimiter[reconcile.Request]

	mu       sync.Mutex
	requests requests // nil until the controller has started
}

// newQueue makes the queue for objects of a namespace, which may be empty.
func newQueue(namespace string) *queue {
	return &queue{
		namespace: namespace,
		limiter:   workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minRetry, maxRetry),
	}
}

// Start is called by the controller.
func (q *queue) Start(_ context.Context, r requests) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requests = r
	return nil
}

// request is the request for an object.
func (q *queue) request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: q.namespace, Name: name}}
}

// add queues an object. A controller that has not started does not need that: it
// starts with all objects.
func (q *queue) add(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.requests != nil {
		q.requests.Add(q.request(name))
	}
}

// forget makes the next retry of an object a quick one.
func (q *queue) forget(name string) { q.limiter.Forget(q.request(name)) }

// failures is how often in a row an object has failed.
func (q *queue) failures(name string) int { return q.limiter.NumRequeues(q.request(name)) }

// logFailures logs why an object fails, once for each cause, and when it no
// longer does. What fails a few times only, and what is waited for, is of no
// interest.
func (a *agent) logFailures(what string, q *queue, f reconcile.Func) reconcile.Func {
	var logged retry.OnceEach[string]
	return func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		result, err := f(ctx, r)
		log := a.log.With("what", what, "name", r.Name)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			if logged.Clear(r.Name) {
				log.Info("this no longer fails")
			}
		case q.failures(r.Name) < passing || errors.Is(err, errWaiting) || !logged.Changed(r.Name, cause(err)):
			log.Debug("trying again", "err", err)
		default:
			log.Warn("this fails again and again, and is tried again at least once a minute; "+
				"the conditions and events of the work on the hub tell more", "err", err)
		}
		return result, err
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
