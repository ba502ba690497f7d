package access

import (
	"sync"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
)

// A signer that does not sign is not waited for again, where a token will do, for
// signerPause, and for longer each time, up to signerMaxPause.
const (
	signerPause    = 10 * time.Minute
	signerMaxPause = time.Hour
)

// signer is what is known about the cluster's signer of client certificates.
type signer struct {
	backoff *retry.Backoff

	mu    sync.Mutex
	until time.Time
}

// isSilent reports whether the signer is known not to sign.
func (s *signer) isSilent(now time.Time) bool { return s.pauses(now) > 0 }

// pauses is for how much longer the signer counts as one that does not sign.
func (s *signer) pauses(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.until.Sub(now))
}

// signs notes that the signer has signed.
func (s *signer) signs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
	s.backoff.Reset()
}

// signerFails notes that the signer does not sign as asked.
func (a *agent) signerFails(why string) {
	now := a.Clock.Now()
	if a.signer.isSilent(now) {
		return
	}
	a.signer.mu.Lock()
	a.signer.until = now.Add(a.signer.backoff.Next())
	until := a.signer.until
	a.signer.mu.Unlock()
	a.Log.Warn("the cluster's signer does not make client certificates; users that take a token get one at once",
		"until", until, "because", why)
	a.queue.Add(engine.General) // reports to the hub which modes are left
}
