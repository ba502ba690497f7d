package work

import "time"

const (
	// freeMends is how often an object is put right at once. Somebody who edits
	// by hand never notices that there is a limit.
	freeMends = 10
	// firstPause is the first pause between two mendings beyond that; each is
	// twice as long as the one before, up to resync.
	firstPause = time.Second
	// quiet is how long nothing may have had to be put right for the count to
	// start anew.
	quiet = time.Minute
)

// mends is how often an object had to be put right lately although its manifest
// had not changed. Two works that disagree about an object, or a controller
// that always undoes what the agent does, would otherwise keep the agent and
// the API server busy without end.
type mends struct {
	count int
	last  time.Time
}

// pause is how long to leave the object alone after the last mending.
func (m mends) pause() time.Duration {
	over := m.count - freeMends
	if over < 0 {
		return 0
	}
	if over >= 8 { // 256 s
		return resync
	}
	return min(firstPause<<over, resync)
}

// wait is how much of the pause is left.
func (m mends) wait(now time.Time) time.Duration {
	return max(0, m.last.Add(m.pause()).Sub(now))
}

// again counts one more mending.
func (m mends) again(now time.Time) mends {
	if now.Sub(m.last) > quiet+2*m.pause() {
		m.count = 0
	}
	return mends{m.count + 1, now}
}
