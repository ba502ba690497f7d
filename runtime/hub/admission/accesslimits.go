package admission

import (
	"sync"
	"time"
)

// inFlight is how long an admitted access request counts that the server does not
// have. Afterwards it is there, was deleted, or was refused by a later check.
const inFlight = 2 * time.Second

// accessLimits remembers the access requests that were admitted a moment ago, so
// that many at a time don't get past the limit together.
type accessLimits struct {
	mu      sync.Mutex
	arrived []accessArrival // in the order of their times
}

type accessArrival struct {
	at        time.Time
	key, name string
}

// take counts the live requests of a user, by the names that the server has and
// those that were admitted since. A further one counts when there is room.
func (l *accessLimits) take(now time.Time, key, name string, onServer map[string]bool, limit int, dryRun bool) (live int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.arrived) > 0 && l.arrived[0].at.Before(now.Add(-inFlight)) {
		l.arrived = l.arrived[1:]
	}
	for _, alive := range onServer {
		if alive {
			live++
		}
	}
	for _, a := range l.arrived {
		if _, known := onServer[a.name]; a.key == key && !known {
			live++
		}
	}
	if live >= limit {
		return live, false
	}
	if !dryRun {
		l.arrived = append(l.arrived, accessArrival{now, key, name})
	}
	return live, true
}
