// Package residency keeps what a process has in memory small.
package residency

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/utils/clock"
)

const (
	// started is how long a start takes at most, as a rule.
	started = 10 * time.Second
	// again is how often what is no longer needed is given back.
	again = 10 * time.Minute
)

// Keep gives back, until ctx ends, what the process has no use for after its
// start.
func Keep(ctx context.Context, clk clock.Clock) {
	timer := clk.NewTimer(started)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		}
		if err := Trim(); err != nil {
			slog.Debug("cannot make the process smaller", "err", err)
			return
		}
		timer.Reset(again)
	}
}
