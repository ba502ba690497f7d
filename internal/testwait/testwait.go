// Package testwait waits in tests for what comes about by itself.
package testwait

import (
	"testing"
	"time"
)

// Patience is how long Eventually waits. It is generous because the machines
// that run tests are busy; a test that passes needs a fraction of it.
const Patience = 20 * time.Second

// Eventually calls check until it returns nil and fails the test when it has
// not within Patience.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", Patience, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
