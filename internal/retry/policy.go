package retry

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Quick is for single requests that mostly work a moment later, as after a
// conflict or while an API server restarts: 100 ms up to limit.
func Quick(limit time.Duration) wait.Backoff { return doubling(100*time.Millisecond, limit) }

// Start is for what the start of a program waits for, which may need somebody
// to help: half a second up to limit.
func Start(limit time.Duration) wait.Backoff { return doubling(500*time.Millisecond, limit) }

// Restart is for parts of a program that have failed as a whole: a second up to
// limit.
func Restart(limit time.Duration) wait.Backoff { return doubling(time.Second, limit) }

// Watch is for lists and watches: a quarter of a second up to 10 seconds. It
// has the most jitter, as all clients lose a server at the same time.
func Watch() wait.Backoff {
	b := doubling(250*time.Millisecond, 10*time.Second)
	b.Jitter = 1
	return b
}

// doubling waits twice as long each time, from first up to limit, and adds up
// to half of it as jitter.
func doubling(first, limit time.Duration) wait.Backoff {
	return wait.Backoff{Duration: first, Factor: 2, Jitter: 0.5, Steps: 30, Cap: limit}
}
