package controlplane

import (
	"context"
	"sync"
	"sync/atomic"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	flowcontrolmetrics "k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"golang.org/x/sync/semaphore"
)

// maxWaiting is how many requests of one flow may wait. More are told to come
// back later.
const maxWaiting = 1000

// Flow is whose requests count together, and how many of them are carried out at
// a time.
type Flow struct {
	// Name is unique among flows. Requests without one never wait.
	Name string
	// Reads and Writes are how many run at a time. The rest wait for their turn, in
	// order. A watch counts as a read until the client has got what is there.
	Reads, Writes int
}

// fairness keeps one flow's requests from slowing down those of others. It takes
// the place of priority and fairness behind the API server's own filter: that
// shares what the server can do among all flows, and reads from the store how, at
// every start; here each flow has a share of its own, and what others leave over
// stays free for who comes next.
type fairness struct {
	flowcontrol.WatchTracker
	flowcontrol.MaxSeatsTracker
	flowOf func(user.Info) Flow

	mu    sync.Mutex
	flows map[string]*flow
}

// flow are the requests of one flow that wait or run.
type flow struct {
	requests      int // protected by fairness.mu
	waiting       atomic.Int32
	reads, writes *semaphore.Weighted
}

var _ flowcontrol.Interface = &fairness{}

func newFairness(flowOf func(user.Info) Flow) *fairness {
	flowcontrolmetrics.Register()
	return &fairness{
		WatchTracker: flowcontrol.NewWatchTracker(), MaxSeatsTracker: flowcontrol.NewMaxSeatsTracker(),
		flowOf: flowOf, flows: map[string]*flow{},
	}
}

// Handle is called for each request, and carries it out when it is its turn.
func (f *fairness) Handle(ctx context.Context, digest flowcontrol.RequestDigest,
	note func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string),
	_ func() flowcontrolrequest.WorkEstimate, queued fairqueuing.QueueNoteFn, execute func(),
) {
	share := f.flowOf(digest.User)
	if share.Name == "" {
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
	if !turn.TryAcquire(1) && !own.wait(ctx, turn, queued) {
		// The filter wants to know whose requests it refuses.
		note(&flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "muster"}}, &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: share.Name}}, share.Name)
		return
	}
	defer turn.Release(1)
	execute()
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

func (f *fairness) enter(share Flow) *flow {
	f.mu.Lock()
	defer f.mu.Unlock()
	own := f.flows[share.Name]
	if own == nil {
		own = &flow{reads: semaphore.NewWeighted(int64(share.Reads)), writes: semaphore.NewWeighted(int64(share.Writes))}
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
