package decide

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// evictionNever is the grace period from which on nothing is evicted.
const evictionNever = 100 * 365 * 24 * time.Hour

// Eviction is what to do about an AppliedManifestWork whose work the hub may not
// have any more.
type Eviction struct {
	// Begin and end say to write down that the grace period begins, or that it is
	// over as the work is back.
	Begin, End bool
	// Evict says to delete the AppliedManifestWork.
	Evict bool
	// After is when to look at it again; 0 for not before something changes.
	After time.Duration
}

// Evict decides about an AppliedManifestWork. managed says whether the
// hub has the work, and began is when the grace period began, if it has.
func Evict(managed bool, began *metav1.Time, grace time.Duration, now time.Time) Eviction {
	switch {
	case managed || grace >= evictionNever:
		return Eviction{End: began != nil}
	case began == nil:
		return Eviction{Begin: true, After: grace}
	}
	if left := began.Add(grace).Sub(now); left > 0 {
		return Eviction{After: left}
	}
	return Eviction{Evict: true}
}
