package decide

import (
	"errors"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/memory"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// applied is a manifest whose object was applied before, and has not changed.
func applied() Situation {
	now := time.Unix(1_000_000, 0)
	last := &memory.Object{
		Applied:  memory.Applied{Hash: manifest.Hash{1}, Owner: "owner", Executor: "e", Allowed: now.Add(-time.Second)},
		Observed: report.Observed{Exists: true, ResourceVersion: "7"},
	}
	return Situation{
		Manifest: &manifest.Manifest{Hash: manifest.Hash{1}, Strategy: workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeUpdate}},
		Last:     last, Owner: "owner", Executor: "e", Version: "7", Watched: true, Now: now,
	}
}

func TestNothingIsRequestedWhileNothingCanHaveChanged(t *testing.T) {
	if !applied().Unchanged() {
		t.Error("what has not changed is applied again")
	}
	for name, change := range map[string]func(*Situation){
		"it cannot be read":                    func(s *Situation) { s.Manifest.Err = errors.New("no") },
		"nothing is remembered":                func(s *Situation) { s.Last = nil },
		"it failed":                            func(s *Situation) { s.Last.Err = errors.New("no") },
		"its object could not be read":         func(s *Situation) { s.Last.Fetched = errors.New("no") },
		"a correction is due":                  func(s *Situation) { s.Last.Paused = time.Second },
		"the manifest is another":              func(s *Situation) { s.Manifest.Hash = manifest.Hash{2} },
		"the owner is another":                 func(s *Situation) { s.Owner = "new" },
		"the executor is another":              func(s *Situation) { s.Executor = "f" },
		"the rights are those of a minute ago": func(s *Situation) { s.Last.Allowed = s.Now.Add(-time.Minute) },
		"the object is another":                func(s *Situation) { s.Version = "8" },
		"the object is not watched":            func(s *Situation) { s.Watched = false },
		"there is no object":                   func(s *Situation) { s.Last.Exists, s.Last.ResourceVersion, s.Version = false, "", "" },
	} {
		s := applied()
		change(&s)
		if s.Unchanged() {
			t.Errorf("%s: nothing is requested", name)
		}
	}
	for name, change := range map[string]func(*Situation){
		"rights that nobody has to have": func(s *Situation) { s.Executor, s.Last.Executor, s.Last.Allowed = "", "", time.Time{} },
		"a missing object that is only read": func(s *Situation) {
			s.Manifest.Strategy.Type = workv1.UpdateStrategyTypeReadOnly
			s.Last.Exists, s.Last.ResourceVersion, s.Version = false, "", ""
		},
	} {
		s := applied()
		change(&s)
		if !s.Unchanged() {
			t.Errorf("%s: something is requested", name)
		}
	}
}

func TestOnlyWhatWasAppliedBeforeIsCorrected(t *testing.T) {
	s := applied()
	if !s.Correcting() {
		t.Error("an object that was applied before counts as a new one")
	}
	s.Last.Err = errors.New("no")
	if s.Correcting() {
		t.Error("an object that was not applied counts as corrected")
	}
	s = applied()
	s.Manifest.Hash = manifest.Hash{2}
	if s.Correcting() {
		t.Error("a new manifest counts as a correction")
	}
}

func TestServerSideApplyHasWrittenWhenTheVersionIsAnother(t *testing.T) {
	s := applied()
	s.Manifest.Strategy.Type = workv1.UpdateStrategyTypeServerSideApply
	if s.Wrote(true, "7") || !s.Wrote(true, "8") || s.Wrote(false, "8") {
		t.Error("it is not the version that decides")
	}
	s.Watched = false
	if !s.Wrote(true, "7") {
		t.Error("without the version before, it has written")
	}
}
