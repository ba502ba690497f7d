package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	flowcontrolmetrics "k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"golang.org/x/sync/semaphore"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// maxWaiting is how many requests of one flow may wait. More are asked to come
// back later. The server reads up to 256 KiB of a body before anything asks for it,
// so these are what a flow may keep in memory beside Flow.Bytes.
const maxWaiting = 400

const (
	// inPool is how long a request has a place in its pool at most. One that takes longer
	// waits for something else than the processors, such as a client that reads slowly, and
	// goes on without one.
	inPool = 2 * time.Second
	// yielding is how many places a request takes in a pool that has to wait for another.
	yielding = 4
)

// watchRetrySeconds is when a client may ask again for a watch that was refused.
const watchRetrySeconds = 5

var waiting = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "muster_requests_waiting",
	Help: "Requests that wait for their turn as the processors have enough to do, by whose they are: " +
		"agents, users, and heartbeats, which wait for each other alone and go before those of agents.",
}, []string{"pool"})

func init() { metrics.Registry.MustRegister(waiting) }

// fairness keeps one flow's requests from slowing down those of others. It takes
// the place of priority and fairness behind the API server's own filter: that
// shares what the server can do among all flows, and reads from the store how, at
// every start; here each flow has a share of its own, and many flows together have no
// more requests running than the processors can carry out (extension.Pool).
type fairness struct {
	flowcontrol.WatchTracker
	flowcontrol.MaxSeatsTracker
	flowOf func(user.Info) extension.Flow

	clock clock.WithDelayedExecution

	mu    sync.Mutex
	flows map[string]*flow
	pools map[string]*pool
}

// pool are the places of an extension.Pool, and how many requests wait for one.
type pool struct {
	*semaphore.Weighted
	waiting atomic.Int32
}

// flow are the requests of one flow that wait or run.
type flow struct {
	requests      int // protected by fairness.mu
	waiting       atomic.Int32
	watches       atomic.Int32
	reads, writes *semaphore.Weighted
	bytes         *semaphore.Weighted
}

var _ flowcontrol.Interface = &fairness{}

func newFairness(flowOf func(user.Info) extension.Flow) *fairness {
	flowcontrolmetrics.Register()
	return &fairness{
		WatchTracker: flowcontrol.NewWatchTracker(), MaxSeatsTracker: flowcontrol.NewMaxSeatsTracker(),
		flowOf: flowOf, clock: clock.RealClock{}, flows: map[string]*flow{}, pools: map[string]*pool{},
	}
}

// Handle is called for each request, and carries it out when it is its turn.
func (f *fairness) Handle(ctx context.Context, digest flowcontrol.RequestDigest,
	note func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string),
	_ func() flowcontrolrequest.WorkEstimate, queued fairqueuing.QueueNoteFn, execute func(),
) {
	share := f.flowOf(digest.User)
	if share.Name == "" || isProbe(digest.RequestInfo) {
		execute()
		return
	}
	own := f.enter(share)
	defer f.leave(share.Name, own)
	turn := own.writes
	switch digest.RequestInfo.Verb {
	case "get", "list", "watch":
		turn = own.reads
	}
	refuse := func() {
		// The filter wants to know whose requests it refuses.
		note(&flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "muster"}}, &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: share.Name}}, share.Name)
	}
	if !turn.TryAcquire(1) && !own.wait(ctx, turn, queued) {
		refuse()
		return
	}
	defer turn.Release(1)
	pool := share.Pool
	if digest.RequestInfo.Resource == "leases" {
		pool = share.Leases
	}
	leave, ok := f.enterPool(ctx, pool, queued)
	if !ok {
		refuse()
		return
	}
	defer leave()
	execute()
}

// enterPool waits for a place in a pool. leave gives it back.
func (f *fairness) enterPool(
	ctx context.Context, p extension.Pool, queued fairqueuing.QueueNoteFn,
) (leave func(), ok bool) {
	if p.Name == "" {
		return func() {}, true
	}
	own, places := f.pool(p), int64(1)
	if f.waitsFor(p.After) {
		places = min(yielding, int64(p.Running))
	}
	if !own.TryAcquire(places) {
		queued(true)
		defer queued(false)
		own.waiting.Add(1)
		defer own.waiting.Add(-1)
		inQueue := waiting.WithLabelValues(p.Name)
		inQueue.Inc()
		defer inQueue.Dec()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer f.clock.AfterFunc(p.Patience, cancel).Stop()
		if own.Acquire(ctx, places) != nil {
			return nil, false
		}
	}
	release := sync.OnceFunc(func() { own.Release(places) })
	late := f.clock.AfterFunc(inPool, release)
	return func() {
		late.Stop()
		release()
	}, true
}

func (f *fairness) pool(p extension.Pool) *pool {
	f.mu.Lock()
	defer f.mu.Unlock()
	own := f.pools[p.Name]
	if own == nil {
		own = &pool{Weighted: semaphore.NewWeighted(int64(p.Running))}
		f.pools[p.Name] = own
		waiting.WithLabelValues(p.Name)
	}
	return own
}

// waitsFor reports whether requests of the pool with a name wait.
func (f *fairness) waitsFor(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	other := f.pools[name]
	return other != nil && other.waiting.Load() > 0
}

// isProbe reports whether a request asks for the server's health, which everybody
// may do at any time.
func isProbe(r *request.RequestInfo) bool {
	return !r.IsResourceRequest && slices.Contains([]string{"/healthz", "/livez", "/readyz"}, r.Path)
}

// hold wraps the handler of requests whose turn it is. It limits what a flow keeps in
// memory: bodies, and watches, which go on when their turn is over.
func (f *fairness) hold(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		u, known := request.UserFrom(ctx)
		info, described := request.RequestInfoFrom(ctx)
		if !known || !described {
			next.ServeHTTP(w, r)
			return
		}
		share := f.flowOf(u)
		if share.Name == "" {
			next.ServeHTTP(w, r)
			return
		}
		own := f.enter(share)
		leave := func() { f.leave(share.Name, own) }
		if info.Verb != "watch" {
			defer leave()
		} else {
			_, watch := extension.LastingOf(ctx)
			defer watch.AtEnd(func() {
				own.watches.Add(-1)
				leave()
			})
			if int(own.watches.Add(1)) > share.Watches {
				refuseWatch(w, share)
				return
			}
		}
		if size := bodySize(r, share.Bytes); size > 0 {
			if own.bytes.Acquire(ctx, size) != nil {
				return // the client has gone
			}
			defer own.bytes.Release(size)
		}
		next.ServeHTTP(w, r)
	})
}

// bodySize is how much memory a request's body may take, at most all.
func bodySize(r *http.Request, all int64) int64 {
	if r.Body == nil || r.Body == http.NoBody {
		return 0
	}
	if r.ContentLength < 0 {
		return all
	}
	return min(r.ContentLength, all)
}

func refuseWatch(w http.ResponseWriter, share extension.Flow) {
	extension.Refuse(w, apierrors.NewTooManyRequests(fmt.Sprintf(
		"%s has %d watches open, and may have no more: close some, or try again later", share.Name, share.Watches,
	), watchRetrySeconds))
}

// wait reports whether it has become the request's turn.
func (f *flow) wait(ctx context.Context, turn *semaphore.Weighted, queued fairqueuing.QueueNoteFn) bool {
	defer f.waiting.Add(-1)
	if f.waiting.Add(1) > maxWaiting {
		return false
	}
	queued(true)
	defer queued(false)
	return turn.Acquire(ctx, 1) == nil
}

func (f *fairness) enter(share extension.Flow) *flow {
	f.mu.Lock()
	defer f.mu.Unlock()
	own := f.flows[share.Name]
	if own == nil {
		own = &flow{
			reads: semaphore.NewWeighted(int64(share.Reads)), writes: semaphore.NewWeighted(int64(share.Writes)),
			bytes: semaphore.NewWeighted(share.Bytes),
		}
		f.flows[share.Name] = own
	}
	own.requests++
	return own
}

func (f *fairness) leave(name string, own *flow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if own.requests--; own.requests == 0 {
		delete(f.flows, name)
	}
}

// Run is part of flowcontrol.Interface: there is nothing to do beside.
func (*fairness) Run(stop <-chan struct{}) error { <-stop; return nil }

// Install is part of flowcontrol.Interface: there is nothing to look at.
func (*fairness) Install(*mux.PathRecorderMux) {}
