package decide

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
)

// Result is what a pass over a work led to for one manifest and its object.
type Result struct {
	Applied
	report.Observed
}

// Applied is what applying a manifest led to.
type Applied struct {
	// Hash is that of the manifest and of how it was to be treated.
	Hash manifest.Hash
	// Owner is the AppliedManifestWork that the object was given.
	Owner types.UID
	// Executor is who has to be allowed to apply the manifest, and Allowed is when
	// that was found to be so.
	Executor string
	Allowed  time.Time
	// Err is why the manifest could not be applied.
	Err error
	// Body is that of the object as it was left; all zeros when it is not known.
	Body manifest.Hash
	// Corrections are how often the object had to be restored, and Paused is how
	// long to wait before that is done again.
	Corrections Corrections
	Paused      time.Duration
	// Rivals are the other works that had the object when it was restored last.
	Rivals []string
}

// Outcome is what is reported of a result at a time.
func (r Result) Outcome(now time.Time) report.Outcome {
	return report.Outcome{
		Applied: r.Err, Contested: r.Corrections.Contested(now), Rivals: r.Rivals, Observed: r.Observed,
	}
}

const (
	// freeCorrections is how often an object is restored at once. A person who
	// edits by hand never notices that there is a limit.
	freeCorrections = 10
	// firstPause is the first pause between two corrections beyond that; each is
	// twice as long as the one before, up to longestPause.
	firstPause   = time.Second
	longestPause = 4 * time.Minute
	// quiet is how long nothing may have had to be restored for the count to
	// start again.
	quiet = time.Minute
)

// Corrections are how often an object had to be restored lately although its
// manifest had not changed. Two works that disagree about an object, or a
// controller that always reverts what the agent does, would otherwise keep the
// agent and the API server busy without end.
type Corrections struct {
	count int
	last  time.Time
}

// pause is how long to leave the object alone after the last correction.
func (c Corrections) pause() time.Duration {
	over := c.count - freeCorrections
	if over < 0 {
		return 0
	}
	if over >= 8 { // 256 s
		return longestPause
	}
	return min(firstPause<<over, longestPause)
}

// Wait is how much of the pause is left.
func (c Corrections) Wait(now time.Time) time.Duration {
	return max(0, c.last.Add(c.pause()).Sub(now))
}

// Again counts one more correction.
func (c Corrections) Again(now time.Time) Corrections {
	if now.Sub(c.last) > quiet+2*c.pause() {
		c.count = 0
	}
	return Corrections{c.count + 1, now}
}

// Contested reports whether somebody else kept changing the object back, up to now.
func (c Corrections) Contested(now time.Time) bool {
	return c.count > freeCorrections && now.Sub(c.last) <= quiet+2*c.pause()
}

// SlowsDown reports whether the last correction is the first one with a pause
// after it.
func (c Corrections) SlowsDown() bool { return c.count == freeCorrections+1 }
