package executor

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

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
