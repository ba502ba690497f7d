package decide

import (
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
)

// A hub that has refused a status leaves less room, until the work changes.
func TestRoomIsThatOfAGeneration(t *testing.T) {
	m := NewMemory()
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
func TestRightsThatMayHaveChangedAreForgotten(t *testing.T) {
	m := NewMemory()
	a, b := manifest.Key{Name: "a"}, manifest.Key{Name: "b"}
	m.Remember("with", m.Recall("with"), map[manifest.Key]Result{a: {Applied: Applied{Executor: "e", Allowed: time.Unix(1, 0)}}, b: {}})
	m.Remember("without", m.Recall("without"), map[manifest.Key]Result{a: {}})
	before := m.Recall("with").Results
	if got := m.ForgetRights(); len(got) != 1 || got[0] != "with" {
		t.Errorf("got %v, want the work with an executor", got)
	}
	if !m.Recall("with").Results[a].Allowed.IsZero() {
		t.Error("the right is remembered")
	}
	if before[a].Allowed.IsZero() {
		t.Error("what others read has changed")
	}
}

// What a pass found out about rights is not remembered when they may have changed
// meanwhile, and the work gets another pass.
func TestRightsThatMayHaveChangedDuringAPassAreForgotten(t *testing.T) {
	key, found := manifest.Key{Name: "a"}, time.Unix(1, 0)
	for name, x := range map[string]struct {
		executor  string
		meanwhile bool
		again     bool
		allowed   time.Time
	}{
		"nothing happened":    {"e", false, false, found},
		"may have changed":    {"e", true, true, time.Time{}},
		"without an executor": {"", true, false, time.Time{}},
	} {
		m := NewMemory()
		began := m.Recall("w")
		if x.meanwhile {
			m.ForgetRights()
		}
		again := m.Remember("w", began, map[manifest.Key]Result{
			key: {Applied: Applied{Executor: x.executor, Allowed: found}},
		})
		if got := m.Recall("w").Results[key].Allowed; again != x.again || got != x.allowed {
			t.Errorf("%s: the right is from %s, the work gets another pass: %v", name, got, again)
		}
	}
}

func TestForgottenWorksLeaveNothing(t *testing.T) {
	m := NewMemory()
	m.Remember("w", m.Recall("w"), map[manifest.Key]Result{})
	m.SetSlow("w", true)
	m.SetRoom("w", 1, 1)
	m.SetRemainders("a", []report.Remainder{{}})
	m.Forget("w", "a")
	if n := len(m.works) + len(m.remainders); n != 0 {
		t.Errorf("%d things are remembered", n)
	}
}
