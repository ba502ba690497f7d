package controlplane

import "time"

// SetStoredFor changes how long resumed watches go to the store, until it is set back.
func SetStoredFor(d time.Duration) (back func()) {
	before := storedFor
	storedFor = d
	return func() { storedFor = before }
}
