package work

import (
	"testing"
	"time"
)

func TestObjectThatOthersKeepChangingIsPutRightLessAndLessOften(t *testing.T) {
	now := time.Unix(0, 0)
	var m mends
	var pauses []time.Duration
	for range 25 {
		pauses = append(pauses, m.wait(now))
		now = now.Add(m.wait(now))
		m = m.again(now)
	}
	for i, p := range pauses {
		switch {
		case i < freeMends && p != 0:
			t.Errorf("mending %d waits %s, want none", i, p)
		case i == freeMends && p != firstPause:
			t.Errorf("mending %d waits %s, want %s", i, p, firstPause)
		case i > freeMends && p != min(2*pauses[i-1], resync):
			t.Errorf("mending %d waits %s after %s", i, p, pauses[i-1])
		}
	}
}

func TestMendingsAreForgottenAfterAQuietTime(t *testing.T) {
	m := mends{count: freeMends + 3, last: time.Unix(0, 0)}
	if got := m.again(m.last.Add(m.pause())); got.count != freeMends+4 {
		t.Errorf("right after the pause: %d, want one more", got.count)
	}
	if got := m.again(m.last.Add(2*m.pause() + quiet + time.Second)); got.count != 1 {
		t.Errorf("after a quiet time: %d, want 1", got.count)
	}
}
