package work

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// A work whose rules take long waits for its turn, gets so much time, and leaves
// the rest for later. One whose rules are quick never waits.
func TestSlowWorksTakeTurns(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	turn := make(chan struct{}, slowInspections)
	look := func() *inspection { return &inspection{clock: clock, turn: turn} }
	slowly := func() { clock.Step(lightInspection) }
	evaluated := func(i *inspection, f func()) (n int) {
		for range 1000 {
			if i.do(f) {
				n++
			}
		}
		return n
	}
	first, second, quick := look(), look(), look()
	if n := evaluated(first, slowly); n != int(longInspection/lightInspection) || first.open() {
		t.Errorf("%d objects of a slow work were looked at", n)
	}
	if n := evaluated(second, slowly); n != 1 || second.open() {
		t.Errorf("%d objects of a second slow work were looked at while the first has its turn", n)
	}
	if n := evaluated(quick, func() { clock.Step(time.Microsecond) }); n != 1000 {
		t.Errorf("%d objects of a quick work were looked at", n)
	}
	first.end()
	first.end()
	if first.open() {
		t.Error("a look that has ended goes on")
	}
	second.end()
	third := look()
	if n := evaluated(third, slowly); n != int(longInspection/lightInspection) {
		t.Errorf("%d objects were looked at after the turn was given back", n)
	}
	third.end()
	if len(turn) != 0 {
		t.Error("the turn is kept")
	}
}
