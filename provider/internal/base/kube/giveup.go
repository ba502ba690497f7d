package kube

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Trouble is something that keeps what is waited for from coming.
type Trouble struct {
	// Text names it: the same text is the same trouble, still there.
	Text string
	// After is how long it has to last until the wait ends.
	After time.Duration
}

// GaveUpError is why a wait ended before its time: a trouble that has lasted.
type GaveUpError struct{ Trouble }

// Error implements error.
func (e *GaveUpError) Error() string { return e.Text }

// WaitOrGiveUp runs a wait, and ends it with a *GaveUpError when a trouble has lasted
// for as long as it says. The wait notes, with each look, all troubles that there are;
// those that it no longer notes are over. note is safe for concurrent use.
func WaitOrGiveUp(ctx context.Context, wait func(ctx context.Context, note func(...Trouble)) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var mu sync.Mutex
	timers := map[string]*time.Timer{}
	note := func(troubles ...Trouble) {
		mu.Lock()
		defer mu.Unlock()
		present := map[string]bool{}
		for _, t := range troubles {
			present[t.Text] = true
			if timers[t.Text] == nil {
				timers[t.Text] = time.AfterFunc(t.After, func() { end(&GaveUpError{t}) })
			}
		}
		for text, timer := range timers {
			if !present[text] {
				timer.Stop()
				delete(timers, text)
			}
		}
	}
	err := wait(ctx, note)
	note()
	var gaveUp *GaveUpError
	if err != nil && errors.As(context.Cause(ctx), &gaveUp) {
		return gaveUp
	}
	return err
}

// First runs waits side by side until one of them ends, ends the others, and returns
// the error of the first.
func First(ctx context.Context, waits ...func(ctx context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	results := make(chan error, len(waits))
	var running sync.WaitGroup
	for _, wait := range waits {
		running.Go(func() { results <- wait(ctx) })
	}
	err := <-results
	stop()
	running.Wait()
	return err
}
