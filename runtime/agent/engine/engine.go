// Package engine has what the controllers of the agent share: a manager between hub and
// managed cluster, queues that follow the agent's clock, watches that come and go, and
// what a controller has written and its cache does not show yet.
//
// Works, add-ons and user access have a manager each. A controller starts when all
// watches of its caches show their objects, so with a shared cache a right that only
// one of them lacks would stop the others. And add-ons and user access end and begin
// with what the hub serves, while works go on.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
)

// untilSynced is how long to wait for the caches: as long as it takes, since both
// sides may be out of reach for days.
const untilSynced = math.MaxInt64 / 2 * time.Nanosecond

// Options say between which sides the controllers are, and what they watch.
type Options struct {
	// Hub and ManagedCluster are the connections to both sides.
	Hub, ManagedCluster *rest.Config
	// UserAgent is what requests name as their client.
	UserAgent string
	// HubCache and LocalCache select what is watched.
	HubCache, LocalCache cache.Options
	// Log gets what controller-runtime logs, as debug messages.
	Log *slog.Logger
	// Clock is that of the queues; nil for those of controller-runtime, which prefer
	// what has changed to what was there at the start.
	Clock clock.WithTicker
}

// Engine runs controllers. Make it with New.
type Engine struct {
	// Manager runs them. Its cache and client are those of the hub.
	manager.Manager
	// Local is the managed cluster.
	Local cluster.Cluster

	clock clock.WithTicker
	log   *slog.Logger
}

// New makes an engine without controllers. It sends no request.
func New(o Options) (*Engine, error) {
	log := logr.FromSlogHandler(o.Log.Handler()).V(4) // what a library calls information
	o.HubCache.DefaultTransform = cache.TransformStripManagedFields()
	o.LocalCache.DefaultTransform = cache.TransformStripManagedFields()
	o.HubCache.NewInformer = newInformer
	m, err := manager.New(o.config(o.Hub), manager.Options{
		Scheme:         api.Scheme(),
		MapperProvider: staticMapper,
		Logger:         log,
		Metrics:        server.Options{BindAddress: "0"},
		Cache:          o.HubCache,
		// What is under way ends before the next session with a hub begins.
		GracefulShutdownTimeout: ptr.To(time.Duration(-1)),
		Controller: config.Controller{
			SkipNameValidation: ptr.To(true), // several agents may live in one process
			CacheSyncTimeout:   untilSynced,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	local, err := cluster.New(o.config(o.ManagedCluster), func(c *cluster.Options) {
		c.Scheme, c.MapperProvider, c.Logger, c.Cache = api.Scheme(), staticMapper, log, o.LocalCache
	})
	if err == nil {
		err = m.Add(local)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the managed cluster: %w", err)
	}
	return &Engine{Manager: m, Local: local, clock: o.Clock, log: o.Log}, nil
}

// InNamespace selects the objects of one namespace for a cache. With a list of
// namespaces a cache asks the mapper for kinds of lists, which it does not know.
func InNamespace(namespace string) fields.Selector {
	return fields.OneTermEqualSelector("metadata.namespace", namespace)
}

// connect makes a client that caches nothing. It sends no request.
func connect(given *rest.Config, userAgent string) (client.WithWatch, error) {
	config := Options{UserAgent: userAgent}.config(given)
	return client.NewWithWatch(config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
}

func (o Options) config(given *rest.Config) *rest.Config {
	c := rest.CopyConfig(given)
	c.UserAgent, c.QPS = o.UserAgent, -1
	return c
}

func staticMapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return restmapper.Static(), nil
}

const (
	// maxRetry is how long an object pauses at most that has failed.
	maxRetry = time.Minute
	// Retry is how long an object pauses that has failed once, unless a controller has
	// a reason for less: longer after each failure.
	Retry = 100 * time.Millisecond
	// MaxUnreported is how many attempts in a row may fail before that is of interest.
	MaxUnreported = 6
	// General is the name in the request for what concerns all objects of a controller.
	General = ""
)

// ErrWaiting marks what only takes its time. It is tried again, and not reported.
var ErrWaiting = errors.New("it is waited for")

// Requests is what a controller takes its work from.
type Requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Queue is the workqueue of a controller, to which also others than its watches add
// objects. It is safe for concurrent use. Make it with NewQueue.
type Queue struct {
	namespace string
	limiter   workqueue.TypedRateLimiter[reconcile.Request]

	mu       sync.Mutex
	requests Requests // nil until the controller starts
	early    []string // what was added before
}

// NewQueue makes the queue of one controller, for objects of a namespace, which may be
// empty. minRetry is how long an object pauses that has failed once.
func NewQueue(namespace string, minRetry time.Duration) *Queue {
	return &Queue{
		namespace: namespace,
		limiter:   workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minRetry, maxRetry),
	}
}

// Start makes the queue one of the controller's sources.
func (q *Queue) Start(_ context.Context, r Requests) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requests = r
	for _, name := range q.early {
		r.Add(q.Request(name))
	}
	q.early = nil
	return nil
}

// Request is the request for an object.
func (q *Queue) Request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: q.namespace, Name: name}}
}

// Add queues an object.
func (q *Queue) Add(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.requests == nil {
		q.early = append(q.early, name)
		return
	}
	q.requests.Add(q.Request(name))
}

// Forget makes the next retry of an object a quick one.
func (q *Queue) Forget(name string) { q.limiter.Forget(q.Request(name)) }

// Failures is how often in a row an object has failed before.
func (q *Queue) Failures(name string) int { return q.limiter.NumRequeues(q.Request(name)) }

// Controller is a controller to add.
type Controller struct {
	Name      string
	Queue     *Queue
	Reconcile reconcile.Func
	// Sources are what is watched, beside the queue.
	Sources []source.Source
	// Workers is how many objects are looked after at a time.
	Workers int
	// Timeout bounds a reconcile; 0 does not.
	Timeout time.Duration
}

// AddController adds a controller. A panic is the error of the object at hand.
func (e *Engine) AddController(added Controller) error {
	options := controller.Options{
		Reconciler:              added.Queue.fromTheStart(e.clock, e.logFailures(added)),
		MaxConcurrentReconciles: added.Workers,
		ReconciliationTimeout:   added.Timeout,
		RateLimiter:             added.Queue.limiter,
		// What fails is logged by logFailures, once for each cause.
		LogConstructor: func(*reconcile.Request) logr.Logger { return logr.Discard() },
	}
	// A queue with a name keeps metrics of its own, which an agent does not serve, and wakes
	// up twice a second for them.
	options.NewQueue = func(_ string, limiter workqueue.TypedRateLimiter[reconcile.Request]) Requests {
		if e.clock == nil {
			return priorityqueue.New("", func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter })
		}
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
			workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Clock: e.clock})
	}
	c, err := controller.New(added.Name, e.Manager, options)
	if err != nil {
		return err
	}
	for _, s := range append(added.Sources, added.Queue) {
		if err := c.Watch(s); err != nil {
			return err
		}
	}
	return nil
}

// fromTheStart counts the time after which an object is due again from the start of
// its reconcile, when it was computed, and not from its end.
func (q *Queue) fromTheStart(clk clock.WithTicker, f reconcile.Func) reconcile.Func {
	return func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		if clk == nil {
			return f(ctx, r)
		}
		start := clk.Now()
		result, err := f(ctx, r)
		if due := result.RequeueAfter; due > 0 && err == nil {
			result.RequeueAfter = max(0, due-clk.Since(start))
			if result.RequeueAfter == 0 {
				q.Add(r.Name)
			}
		}
		return result, err
	}
}

// logFailures logs why an object fails, once for each cause, and when it no longer
// does. What fails a few times only, and what is waited for, is of no interest.
func (e *Engine) logFailures(of Controller) reconcile.Func {
	var logged retry.OnceEach[string]
	return func(ctx context.Context, r reconcile.Request) (result reconcile.Result, err error) {
		err = recovery.Call(func() (err error) {
			result, err = of.Reconcile(ctx, r)
			return err
		})
		log := e.log.With("what", of.Name, "name", r.Name)
		isPassing := of.Queue.Failures(r.Name) < MaxUnreported || errors.Is(err, ErrWaiting)
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
		case err == nil:
			if logged.Clear(r.Name) {
				log.Info("this no longer fails")
			}
		case isPassing || !logged.Changed(r.Name, cause(err)):
			log.Debug("trying again", "err", err)
		default:
			log.Warn("this fails again and again, and is tried again at least once a minute; "+
				"conditions and events on the hub have more", "err", err)
		}
		return result, err
	}
}

// cause is an error's text without the numbers, which differ from one attempt to the
// next: versions, sizes, times.
func cause(err error) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return '0'
		}
		return r
	}, err.Error())
}

// Soonest is the shortest of waits. A wait of 0 is no wait.
func Soonest(waits ...time.Duration) time.Duration {
	var soonest time.Duration
	for _, w := range waits {
		if w > 0 && (soonest == 0 || w < soonest) {
			soonest = w
		}
	}
	return soonest
}
