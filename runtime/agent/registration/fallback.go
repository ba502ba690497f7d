package registration

import (
	"context"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
)

// silence is how long a hub may be out of reach before the agent looks for it
// elsewhere.
const silence = 2 * time.Minute

// seekHub looks for the hub at its other endpoints when the present one is out of
// reach, and goes over to one that proves to be it.
func (s *session) seekHub(ctx context.Context) {
	if s.several() {
		return
	}
	failing := retry.New(s.Clock, retry.Restart(5*time.Minute))
	loop.Run(ctx, s.Clock, s.silent, loop.Never, func(ctx context.Context) time.Duration {
		since := s.silentSince.Load()
		if since == nil {
			failing.Reset()
			return loop.Never
		}
		if left := silence - s.Clock.Since(*since); left > 0 {
			return left
		}
		if s.tryElsewhere(ctx) {
			return loop.Never
		}
		return failing.Next()
	})
}

func (s *session) tryElsewhere(ctx context.Context) (found bool) {
	id, now := s.identity(), s.Clock.Now()
	for _, e := range id.Alternatives(now) {
		if err := s.isSameHub(ctx, id, e); err != nil {
			s.Log.Debug("the hub is not to be found at another endpoint either", "at", e.Server, "err", err)
			continue
		}
		err := s.change(ctx, func(id identity.Identity) identity.Identity {
			id = id.MoveTo(e)
			id.Place.Hold = min(max(2*id.Place.Hold, minHold), maxHold)
			id.Place.HoldUntil = now.Add(id.Place.Hold)
			return id
		})
		if err != nil {
			return false
		}
		s.Log.Warn("the hub is out of reach where it was, and the agent goes over to another endpoint of it", "from", id.Hub.Server, "to", e.Server)
		s.end(errMoved)
		return true
	}
	return false
}

// note notes whether the hub answers.
func (s *session) note(answers bool) {
	switch {
	case answers:
		s.silentSince.Store(nil)
	case s.silentSince.Load() == nil:
		now := s.Clock.Now()
		s.silentSince.Store(&now)
	}
	s.silent.Set()
}

// change changes the identity in use, in its Secret first. Changes don't overtake
// each other.
func (s *session) change(ctx context.Context, how func(identity.Identity) identity.Identity) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	before := s.identity()
	id := how(before)
	if id.Equal(before) {
		return nil
	}
	if err := s.save(ctx, id); err != nil {
		return err
	}
	return s.use(id)
}
