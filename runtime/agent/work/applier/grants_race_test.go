package applier

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// Answers are not believed forever, as a cluster may have an authorizer that no
// role says anything about, and those that nobody asks for again take no room.
func TestAnswersHaveAnAge(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	g := NewGrants(nil, clock, nil, func() {})
	g.trust(true)
	for yes, age := range map[bool]time.Duration{true: yesAge, false: noAge} {
		q := grant{user: "a", verb: fmt.Sprint(yes)}
		asked := 0
		ask := func() (bool, error) { asked++; return yes, nil }
		for i, step := range []time.Duration{0, age - 1, 1} {
			clock.Step(step)
			if may, _ := g.allowed(q, ask); may != yes || asked != 1+i/2 {
				t.Errorf("the answer %v after %s: got %v, asked %d times", yes, step, may, asked)
			}
		}
	}
	for i := range 1000 {
		_, _ = g.allowed(grant{name: fmt.Sprint(i)}, func() (bool, error) { return true, nil })
	}
	clock.Step(yesAge)
	_, _ = g.allowed(grant{name: "one more"}, func() (bool, error) { return true, nil })
	if n := len(g.answers); n != 1 {
		t.Errorf("%d answers are kept", n)
	}
}

// An answer to a question from before a change of rights is not kept, however
// late it comes.
func TestAnswersFromBeforeAChangeAreNotKept(t *testing.T) {
	g := NewGrants(nil, clocktesting.NewFakeClock(time.Now()), nil, func() {})
	g.trust(true)
	q := grant{user: "a", verb: "get", resource: "secrets", name: "s"}
	asked := 0
	ask := func(answer bool, meanwhile func()) func() (bool, error) {
		return func() (bool, error) { asked++; meanwhile(); return answer, nil }
	}
	for name, change := range map[string]func(){
		"a change that has not settled": g.changed,
		"a change that has settled":     func() { g.changed(); g.trust(true) },
	} {
		g.trust(true)
		asked = 0
		if may, _ := g.allowed(q, ask(true, change)); !may {
			t.Errorf("%s: the answer is turned round", name)
		}
		if may, _ := g.allowed(q, ask(false, func() {})); may || asked != 2 {
			t.Errorf("%s: the right is remembered that was taken away (asked %d times)", name, asked)
		}
	}
	g.trust(true)
	asked = 0
	for range 2 {
		if may, err := g.allowed(q, ask(true, func() {})); !may || err != nil || asked != 1 {
			t.Errorf("got %v, %v, asked %d times: an answer is not remembered", may, err, asked)
		}
	}
}
