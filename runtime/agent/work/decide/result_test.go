package decide

import (
	"testing"
	"time"
)

func TestObjectThatOthersKeepChangingIsRestoredLessAndLessOften(t *testing.T) {
	now := time.Unix(0, 0)
	var m Corrections
	var pauses []time.Duration
	for range 25 {
		pauses = append(pauses, m.Wait(now))
		now = now.Add(m.Wait(now))
		m = m.Again(now)
	}
	for i, p := range pauses {
		switch {
		case i < freeCorrections && p != 0:
			t.Errorf("correction %d waits %s, want none", i, p)
		case i == freeCorrections && p != firstPause:
			t.Errorf("correction %d waits %s, want %s", i, p, firstPause)
		case i > freeCorrections && p != min(2*pauses[i-1], longestPause):
			t.Errorf("correction %d waits %s after %s", i, p, pauses[i-1])
		}
	}
}

func TestCorrectionsAreForgottenAfterAQuietTime(t *testing.T) {
	m := Corrections{count: freeCorrections + 3, last: time.Unix(0, 0)}
	if got := m.Again(m.last.Add(m.pause())); got.count != freeCorrections+4 {
		t.Errorf("right after the pause: %d, want one more", got.count)
	}
	if got := m.Again(m.last.Add(2*m.pause() + quiet + time.Second)); got.count != 1 {
		t.Errorf("after a quiet time: %d, want 1", got.count)
	}
}

func TestContestedEndsWithTheCorrections(t *testing.T) {
	now := time.Unix(1000, 0)
	var c Corrections
	for range freeCorrections {
		c = c.Again(now)
	}
	if c.Contested(now) {
		t.Error("contested by what a person may do by hand")
	}
	c = c.Again(now)
	if !c.Contested(now) || !c.Contested(now.Add(quiet)) {
		t.Error("not contested after more than that")
	}
	if c.Contested(now.Add(2 * quiet)) {
		t.Error("contested long after the last correction")
	}
}
