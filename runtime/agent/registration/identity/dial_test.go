package identity

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// away is a hub that refuses connections until it is back.
type away struct {
	back     atomic.Bool
	attempts atomic.Int32
}

func (a *away) dial(context.Context, string, string) (net.Conn, error) {
	a.attempts.Add(1)
	if a.back.Load() {
		conn, _ := net.Pipe()
		return conn, nil
	}
	return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
}

// pass moves the clock on, once somebody waits for it, until all connections have ended.
func pass(t *testing.T, clk *clocktesting.FakeClock, all *sync.WaitGroup, step time.Duration, steps int) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	testkit.Eventually(t, func() error {
		select {
		case <-done:
			return nil
		default:
		}
		if steps > 0 && clk.HasWaiters() {
			steps--
			clk.Step(step)
		}
		return errors.New("connections still wait")
	})
}

func TestConnectionsWaitForTheHubTogether(t *testing.T) {
	hub, clk := &away{}, clocktesting.NewFakeClock(time.Now())
	p := newPatient(hub.dial, clk)
	p.on.Store(true)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			conn, err := p.DialContext(t.Context(), "tcp", "hub:443")
			if err != nil {
				t.Errorf("a connection fails: %v", err)
				return
			}
			_ = conn.Close()
		})
	}
	testkit.Eventually(t, func() error {
		if hub.attempts.Load() < 6 { // all of them once, and one again
			return errors.New("not all have tried")
		}
		return nil
	})
	before := hub.attempts.Load()
	hub.back.Store(true)
	pass(t, clk, &all, longestPause, 10)
	if more := hub.attempts.Load() - before; more > 6 {
		t.Errorf("%d attempts once the hub is back, by 5 connections", more)
	}
}

func TestConnectionGivesUpInTheEnd(t *testing.T) {
	hub, clk := &away{}, clocktesting.NewFakeClock(time.Now())
	p := newPatient(hub.dial, clk)
	p.on.Store(true)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if _, err := p.DialContext(t.Context(), "tcp", "hub:443"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("got %v", err)
			}
		})
	}
	pass(t, clk, &all, patience, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.DialContext(ctx, "tcp", "hub:443"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection that nobody wants gets %v", err)
	}
}

func TestNobodyWaitsUnasked(t *testing.T) {
	hub := &away{}
	p := newPatient(hub.dial, clocktesting.NewFakeClock(time.Now()))
	_, err := p.DialContext(t.Context(), "tcp", "hub:443")
	if !errors.Is(err, syscall.ECONNREFUSED) || hub.attempts.Load() != 1 {
		t.Errorf("got %v after %d attempts", err, hub.attempts.Load())
	}
}

func TestOtherErrorsAreFinal(t *testing.T) {
	lost := errors.New("no such host")
	attempts := 0
	p := newPatient(func(context.Context, string, string) (net.Conn, error) {
		attempts++
		return nil, lost
	}, clocktesting.NewFakeClock(time.Now()))
	p.on.Store(true)
	if _, err := p.DialContext(t.Context(), "tcp", "hub:443"); !errors.Is(err, lost) || attempts != 1 {
		t.Errorf("got %v after %d attempts", err, attempts)
	}
}
