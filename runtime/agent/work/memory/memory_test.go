package memory

import (
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
)

// A hub that has refused a status leaves less room, until the work changes.
func TestRoomIsThatOfAGeneration(t *testing.T) {
	m := New()
	if _, known := m.Room("w", 1); known {
		t.Error("the room is known before the hub has refused a status")
	}
	m.SetRoom("w", 1, 100)
	if bytes, known := m.Room("w", 1); bytes != 100 || !known {
		t.Errorf("the room is %d (known: %v), want 100", bytes, known)
	}
	if _, known := m.Room("w", 2); known {
		t.Error("the room stays small although the work has changed")
	}
}

// Rights that may have changed are asked for again, of works with an executor.
func TestDoubtedRightsAreForgotten(t *testing.T) {
	m := New()
	a, b := manifest.Key{Name: "a"}, manifest.Key{Name: "b"}
	m.SetObjects("with", map[manifest.Key]Object{a: {Applied: Applied{Executor: "e", Allowed: time.Unix(1, 0)}}, b: {}})
	m.SetObjects("without", map[manifest.Key]Object{a: {}})
	before := m.Known("with")
	if got := m.DoubtRights(); len(got) != 1 || got[0] != "with" {
		t.Errorf("got %v, want the work with an executor", got)
	}
	if !m.Known("with")[a].Allowed.IsZero() {
		t.Error("the right is remembered")
	}
	if before[a].Allowed.IsZero() {
		t.Error("what others read has changed")
	}
}

func TestForgottenWorksLeaveNothing(t *testing.T) {
	m := New()
	m.SetObjects("w", map[manifest.Key]Object{})
	m.SetSlow("w", true)
	m.SetRoom("w", 1, 1)
	m.SetRemainders("a", []report.Remainder{{}})
	m.Forget("w", "a")
	if n := len(m.works) + len(m.slow) + len(m.rooms) + len(m.remainders); n != 0 {
		t.Errorf("%d things are remembered", n)
	}
}
