package loop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
)

// runner is a running loop whose passes are due in a minute each.
type runner struct {
	t      *testing.T
	clock  *clocktesting.FakeClock
	news   loop.Signal
	passes chan struct{}
}

func run(t *testing.T, first time.Duration) *runner {
	t.Helper()
	r := &runner{t: t, clock: clocktesting.NewFakeClock(time.Unix(1_900_000_000, 0)), news: loop.NewSignal(), passes: make(chan struct{}, 10)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		loop.Run(ctx, r.clock, r.news, first, func(context.Context) time.Duration {
			r.passes <- struct{}{}
			return time.Minute
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *runner) awaitPass(why string) {
	r.t.Helper()
	select {
	case <-r.passes:
	case <-time.After(testkit.Timeout):
		r.t.Fatalf("no pass %s", why)
	}
}

func (r *runner) awaitTimer() {
	r.t.Helper()
	testkit.Eventually(r.t, func() error {
		if !r.clock.HasWaiters() {
			return errors.New("nothing waits for the clock")
		}
		return nil
	})
}

func TestPassesComeWhenTheyAreDue(t *testing.T) {
	r := run(t, 0)
	r.awaitPass("at once")
	r.awaitTimer()
	r.clock.Step(59 * time.Second)
	if len(r.passes) != 0 {
		t.Error("a pass that was not due")
	}
	r.clock.Step(time.Second)
	r.awaitPass("after the time that the pass before returned")
}

func TestNewsBringsAPass(t *testing.T) {
	r := run(t, loop.Never)
	r.clock.Step(1000 * time.Hour)
	if len(r.passes) != 0 {
		t.Error("a pass without news")
	}
	r.news.Set()
	r.awaitPass("for the news")
}

func TestSeveralNewsAreOne(t *testing.T) {
	s := loop.NewSignal()
	s.Set()
	s.Set()
	<-s
	select {
	case <-s:
		t.Error("there is a second element")
	default:
	}
	s.Set()
	s.Clear()
	s.Clear()
	if len(s) != 0 {
		t.Error("there is news after Clear")
	}
}
