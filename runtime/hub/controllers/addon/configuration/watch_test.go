package configuration

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	for clusters, want := range map[int]time.Duration{0: 0, 99: 0, 100: 100 * time.Millisecond, 1_000: time.Second, 10_000: 2 * time.Second} {
		if got := pace(clusters); got != want {
			t.Errorf("an add-on in %d clusters waits %s, want %s", clusters, got, want)
		}
	}
}
