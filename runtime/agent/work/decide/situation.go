package decide

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/failure"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/memory"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Situation is what is known of one manifest when it is decided what to do.
type Situation struct {
	Manifest *manifest.Manifest
	// Last is what is remembered of the manifest; nil for nothing.
	Last *memory.Object
	// Owner is the AppliedManifestWork that the object is to have, and executor is
	// who has to be allowed to apply the manifest.
	Owner    types.UID
	Executor string
	// Version is the object's resource version as it is watched; watched is false
	// when it is not known.
	Version string
	Watched bool
	Now     time.Time
}

// Unchanged reports whether nothing has to be requested, as neither the manifest
// nor its object nor the right to apply it can have changed since the last look.
func (s Situation) Unchanged() bool {
	m, last := s.Manifest, s.Last
	if m.Err != nil || last == nil || last.Err != nil || last.Fetched != nil || last.Paused > 0 {
		return false
	}
	if last.Hash != m.Hash || last.Owner != s.Owner || last.Executor != s.Executor {
		return false
	}
	if s.Executor != "" && s.Now.Sub(last.Allowed) >= failure.DeniedRetry {
		return false
	}
	return s.Watched && s.Version == last.ResourceVersion && (last.Exists || m.Strategy.Type == workv1.UpdateStrategyTypeReadOnly)
}

// Correcting reports whether the manifest was applied before, as it is now: then
// its object only has to be restored where others have changed it.
func (s Situation) Correcting() bool {
	return s.Last != nil && s.Last.Hash == s.Manifest.Hash && s.Last.Err == nil
}

// Wrote reports whether applying the manifest has changed its object. Server-side
// apply does not say so itself: it has when the version is another than before.
func (s Situation) Wrote(said bool, version string) bool {
	return said && (s.Manifest.Strategy.Type != workv1.UpdateStrategyTypeServerSideApply || !s.Watched || s.Version != version)
}
