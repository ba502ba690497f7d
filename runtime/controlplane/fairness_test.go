package controlplane

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// turnstile has a fairness that gives each named user one read and two writes.
type turnstile struct {
	*fairness
	refused int
}

func (s *turnstile) handle(ctx context.Context, name, verb string, queued func(bool), execute func()) {
	digest := flowcontrol.RequestDigest{RequestInfo: &request.RequestInfo{Verb: verb}, User: &user.DefaultInfo{Name: name}}
	s.Handle(ctx, digest, func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string) { s.refused++ }, nil, queued, execute)
}

func newTurnstile() *turnstile {
	return &turnstile{fairness: newFairness(func(u user.Info) extension.Flow {
		return extension.Flow{Name: u.GetName(), Reads: 1, Writes: 2, Watches: 1, Bytes: 1}
	})}
}

func TestOneFlowsRequestsWaitForEachOther(t *testing.T) {
	s, ctx := newTurnstile(), context.Background()
	unexpected := func(bool) { t.Error("a request waits that should not") }
	order, waits := make(chan string, 2), make(chan bool, 2)
	done := make(chan struct{})
	s.handle(ctx, "a", "list", unexpected, func() {
		go func() {
			defer close(done)
			s.handle(ctx, "a", "get", func(in bool) { waits <- in }, func() { order <- "second" })
		}()
		if in := <-waits; !in {
			t.Error("it waits no longer")
		}
		ran := 0
		s.handle(ctx, "b", "list", unexpected, func() { ran++ })
		s.handle(ctx, "a", "update", unexpected, func() { ran++ })
		s.handle(ctx, "", "list", unexpected, func() { ran++ }) // is in no flow
		if ran != 3 {
			t.Errorf("%d of 3 requests ran that have nothing to wait for", ran)
		}
		order <- "first"
	})
	<-done
	if first, second := <-order, <-order; first != "first" || second != "second" {
		t.Errorf("the order was %s, %s", first, second)
	}
	if len(s.flows) != 0 || s.refused != 0 {
		t.Errorf("%d flows are left, %d requests were refused", len(s.flows), s.refused)
	}
}

func TestWhoGivesUpIsNotServed(t *testing.T) {
	s := newTurnstile()
	s.handle(context.Background(), "a", "list", nil, func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.handle(ctx, "a", "list", func(bool) {}, func() { t.Error("it was served") })
	})
	if s.refused != 1 || len(s.flows) != 0 {
		t.Errorf("refused %d, %d flows are left", s.refused, len(s.flows))
	}
	s.handle(context.Background(), "a", "list", nil, func() {})
}

// pooled has a fairness whose flows share a pool with one place.
func pooled() (*turnstile, *clocktesting.FakeClock) {
	clk := clocktesting.NewFakeClock(time.Unix(1_900_000_000, 0))
	s := &turnstile{fairness: newFairness(func(u user.Info) extension.Flow {
		return extension.Flow{
			Name: u.GetName(), Reads: 1, Writes: 2, Watches: 1, Bytes: 1,
			Pool:   extension.Pool{Name: "all", Running: 1, Patience: time.Minute, After: "leases"},
			Leases: extension.Pool{Name: "leases", Running: 1, Patience: time.Second},
		}
	})}
	s.clock = clk
	return s, clk
}

func TestFlowsOfAPoolWaitForEachOther(t *testing.T) {
	s, _ := pooled()
	ctx, waits, done, second := context.Background(), make(chan bool, 2), make(chan struct{}), false
	s.handle(ctx, "a", "update", nil, func() {
		go func() {
			defer close(done)
			s.handle(ctx, "b", "update", func(in bool) { waits <- in }, func() { second = true })
		}()
		if in := <-waits; !in {
			t.Error("it waits no longer")
		}
		for testutil.ToFloat64(waiting.WithLabelValues("all")) != 1 {
			runtime.Gosched()
		}
	})
	<-done
	if !second || s.refused != 0 {
		t.Errorf("the second ran: %t, %d were refused", second, s.refused)
	}
}

func TestHeartbeatsDoNotWaitForWorks(t *testing.T) {
	s, _ := pooled()
	ctx, ran := context.Background(), 0
	beat := flowcontrol.RequestDigest{
		RequestInfo: &request.RequestInfo{Verb: "update", Resource: "leases"}, User: &user.DefaultInfo{Name: "b"},
	}
	s.handle(ctx, "a", "update", nil, func() {
		waits := func(bool) { t.Error("a heartbeat waits") }
		s.Handle(ctx, beat, nil, nil, waits, func() { ran++ })
	})
	if ran != 1 {
		t.Errorf("%d heartbeats ran", ran)
	}
}

// A place is for what needs a processor, and nobody keeps it by reading slowly.
func TestAPlaceInAPoolIsLentForAMoment(t *testing.T) {
	s, clk := pooled()
	ctx, waits, ran := context.Background(), make(chan bool, 2), make(chan struct{})
	s.handle(ctx, "slow", "update", nil, func() {
		go s.handle(ctx, "b", "update", func(in bool) { waits <- in }, func() { close(ran) })
		<-waits
		clk.Step(inPool)
		<-ran
	})
	for i := range 3 { // the place was given back once, and not twice
		s.handle(ctx, fmt.Sprint(i), "update", nil, func() {
			if s.pool(extension.Pool{Name: "all"}).TryAcquire(1) {
				t.Error("there are two places")
			}
		})
	}
}

func TestWhoWaitsForAPoolForTooLongIsRefused(t *testing.T) {
	s, clk := pooled()
	ctx, waits, done := context.Background(), make(chan bool, 2), make(chan struct{})
	places := s.pool(extension.Pool{Name: "all", Running: 1})
	if !places.TryAcquire(1) { // for longer than a request would have it
		t.Fatal("the pool has no place")
	}
	go func() {
		defer close(done)
		s.handle(ctx, "b", "update", func(in bool) { waits <- in }, func() { t.Error("it was served") })
	}()
	<-waits
	for !clk.HasWaiters() {
		runtime.Gosched()
	}
	clk.Step(time.Minute)
	<-done
	if s.refused != 1 || len(s.flows) != 0 {
		t.Errorf("refused %d, %d flows are left", s.refused, len(s.flows))
	}
}

// While a heartbeat waits, works take up only a part of the places that there are for them.
func TestWorksLeaveTheProcessorsToHeartbeats(t *testing.T) {
	s, clk := pooled()
	s.flowOf = func(u user.Info) extension.Flow {
		return extension.Flow{
			Name: u.GetName(), Reads: 1, Writes: 1, Watches: 1, Bytes: 1,
			Pool:   extension.Pool{Name: "all", Running: 8, Patience: time.Minute, After: "leases"},
			Leases: extension.Pool{Name: "leases", Running: 1, Patience: time.Second},
		}
	}
	ctx := context.Background()
	// runs starts works until one has to wait, and returns how many run.
	runs := func() (n int) {
		end, waits := make(chan struct{}), make(chan bool, 20)
		var working sync.WaitGroup
		defer working.Wait()
		defer close(end)
		for i := range 20 {
			begun := make(chan struct{})
			working.Go(func() {
				s.handle(ctx, fmt.Sprint("work ", i), "update", func(in bool) { waits <- in }, func() {
					close(begun)
					<-end
				})
			})
			select {
			case <-begun:
				n++
			case <-waits:
				return n
			}
		}
		return n
	}
	if n := runs(); n != 8 {
		t.Errorf("%d works run without heartbeats, want 8", n)
	}
	leases := s.pool(extension.Pool{Name: "leases", Running: 1})
	if !leases.TryAcquire(1) {
		t.Fatal("the pool of heartbeats has no place")
	}
	beat := flowcontrol.RequestDigest{
		RequestInfo: &request.RequestInfo{Verb: "update", Resource: "leases"}, User: &user.DefaultInfo{Name: "b"},
	}
	waits, refused := make(chan bool, 2), make(chan struct{})
	go func() {
		defer close(refused)
		note := func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string) {}
		s.Handle(ctx, beat, note, nil, func(in bool) { waits <- in }, func() { t.Error("the heartbeat was served") })
	}()
	<-waits
	if n := runs(); n != 2 {
		t.Errorf("%d works run while a heartbeat waits, want 2", n)
	}
	for !clk.HasWaiters() {
		runtime.Gosched()
	}
	clk.Step(time.Second)
	<-refused
	if n := runs(); n != 8 {
		t.Errorf("%d works run after the heartbeat, want 8", n)
	}
}
