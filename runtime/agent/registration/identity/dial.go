package identity

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
)

// dialFunc opens a connection.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// patience is how long a connection waits for a hub that is not there, and longestPause the
// longest time between two attempts of it.
const patience, longestPause = 30 * time.Second, time.Second

// patient dials a hub again that refuses connections, as one that restarts. Each watch of an
// agent would otherwise wait by itself, and longer after each attempt: many seconds after the
// hub is back. All connections of the agent wait together, and one of them tries.
type patient struct {
	on    atomic.Bool // while it is false, the first error is final
	dial  dialFunc
	clock clock.Clock
	turn  chan struct{} // has an element while one tries
}

func newPatient(dial dialFunc, clk clock.Clock) *patient {
	return &patient{dial: dial, clock: clk, turn: make(chan struct{}, 1)}
}

// DialContext opens a connection, at once where the hub is there. Another error than that
// nobody listens is final.
func (p *patient) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := p.dial(ctx, network, address)
	if !isAway(err) || !p.on.Load() {
		return conn, err
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := p.clock.NewTimer(patience)
	defer timer.Stop()
	go func() {
		select {
		case <-timer.C():
			cancel()
		case <-waiting.Done():
		}
	}()
	select {
	case p.turn <- struct{}{}:
	case <-waiting.Done():
		return nil, err
	}
	defer func() { <-p.turn }()
	pause := retry.New(p.clock, retry.Quick(longestPause))
	for {
		if conn, again := p.dial(ctx, network, address); !isAway(again) {
			return conn, again
		}
		if pause.Wait(waiting, nil); waiting.Err() != nil {
			return nil, err
		}
	}
}

// isAway reports whether nobody listens at an address, while its machine, or one before it,
// is there.
func isAway(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
