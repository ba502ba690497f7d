package pki

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
)

// retryAfter is the pause before a failed re-issue is tried again. A
// certificate is renewed with a third of its life left, so there is time.
const retryAfter = time.Minute

// RenewAt is the moment from which a certificate issued at now for lifetime
// should be replaced: two thirds into its life.
func RenewAt(now time.Time, lifetime time.Duration) time.Time {
	return now.Add(lifetime * 2 / 3)
}

// Rotate calls issue whenever two thirds of lifetime have passed since the
// last time that it succeeded, until ctx ends. The caller has issued once
// before. What issue is for is named in the log when it fails.
func Rotate(ctx context.Context, clk clock.Clock, lifetime time.Duration, what string, issue func(now time.Time) error) {
	next := RenewAt(clk.Now(), lifetime)
	for {
		timer := clk.NewTimer(next.Sub(clk.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		if err := issue(clk.Now()); err != nil {
			logging.FromContext(ctx).Error("a certificate could not be renewed, trying again", "certificate", what, "in", retryAfter, "err", err)
			next = clk.Now().Add(retryAfter)
			continue
		}
		logging.FromContext(ctx).Info("renewed a certificate", "certificate", what, "lifetime", lifetime)
		next = RenewAt(clk.Now(), lifetime)
	}
}
