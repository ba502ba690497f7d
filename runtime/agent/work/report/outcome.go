package report

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Outcome is what became of one manifest, as far as it is reported.
type Outcome struct {
	// Applied is why the manifest could not be applied; nil when it was.
	Applied error
	// Kept says that the work is complete: what was said about applying it stays.
	Kept bool
	// Contested says that others keep changing the object back, and Rivals are the
	// works among them, as far as that is known.
	Contested bool
	Rivals    []string
	Observed
}

// Observed is what was read of a manifest's object.
type Observed struct {
	// Fetched is why the object could not be read; nil when it was, or when there
	// is none.
	Fetched error
	// Hidden says that it was not read, as the work's executor may not get it.
	Hidden bool
	Exists bool
	// UID and ResourceVersion are those of the object; empty when there is none.
	UID             types.UID
	ResourceVersion string
	Progress        Progress
	Findings        Findings
	// Waits is how long the work's rules are not yet evaluated on the object, as
	// there was no time for them; 0 when they were.
	Waits time.Duration
	// Problem is what is wrong with the pods of a workload that is moving; empty when
	// nothing is, or nothing is known. PodsAgain is how soon they are to be read again,
	// as they are not watched; 0 when that need not be.
	Problem   string
	PodsAgain time.Duration
}

// ObservedOf is what is reported of an object besides what the work's rules yield.
// The object is nil when there is none.
func ObservedOf(live *unstructured.Unstructured) Observed {
	if live == nil {
		return Observed{}
	}
	return Observed{
		Exists: true, UID: live.GetUID(), ResourceVersion: live.GetResourceVersion(), Progress: progressOf(live),
	}
}
