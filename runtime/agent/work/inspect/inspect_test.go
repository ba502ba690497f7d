package inspect

import (
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
	clocktesting "k8s.io/utils/clock/testing"
)

// A work whose rules take long waits for its turn, gets so much time, and leaves
// the rest for later. One whose rules are quick never waits.
func TestSlowWorksTakeTurns(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	inspector := &Inspector{clock: clock, turns: semaphore.NewWeighted(slowInspections)}
	look := func() *Inspection { return inspector.Begin(false) }
	slowly := func(bool) bool { clock.Step(lightInspection); return false }
	evaluated := func(i *Inspection, f func(bool) bool) (n int) {
		for range 1000 {
			if i.do(f) {
				n++
			}
		}
		return n
	}
	first, second, quick := look(), look(), look()
	if n := evaluated(first, slowly); n != int(longInspection/lightInspection) || first.Open() {
		t.Errorf("%d objects of a slow work were looked at", n)
	}
	if n := evaluated(second, slowly); n != 1 || second.Open() {
		t.Errorf("%d objects of a second slow work were looked at while the first has its turn", n)
	}
	if n := evaluated(quick, func(bool) bool { clock.Step(time.Microsecond); return false }); n != 1000 {
		t.Errorf("%d objects of a quick work were looked at", n)
	}
	first.End()
	first.End()
	if first.Open() {
		t.Error("a look that has ended goes on")
	}
	second.End()
	third := look()
	if n := evaluated(third, slowly); n != int(longInspection/lightInspection) {
		t.Errorf("%d objects were looked at after the turn was given back", n)
	}
	third.End()
	if !inspector.turns.TryAcquire(slowInspections) {
		t.Error("the turn is kept")
	}
	inspector.turns.Release(slowInspections)

	// What is too costly without a turn is done again with one.
	costly := look()
	var turns []bool
	done := costly.do(func(turn bool) bool { turns = append(turns, turn); return true })
	if !done || len(turns) != 2 || turns[0] || !turns[1] {
		t.Errorf("a costly object was looked at with turns %v", turns)
	}
	other := look()
	if other.do(func(bool) bool { return true }) {
		t.Error("a costly object was looked at while another work has its turn")
	}
	if !costly.End() || !other.End() || look().End() {
		t.Error("it is told wrongly which works are slow")
	}
}
