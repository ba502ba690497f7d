// Package fakewatch makes a fake API server that shows a test when it is
// being watched.
//
// Unlike a real server, the fake one does not deliver what happened between a
// list and the watch that follows. A test that changes something too early would
// wait for ever.
package fakewatch

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Client returns a client of the same server, and a channel that has an element
// for each watch that has been opened through it.
func Client(c client.WithWatch) (_ client.WithWatch, open <-chan struct{}) {
	opened := make(chan struct{}, 1000)
	return interceptor.NewClient(c, interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) (watch.Interface, error) {
			w, err := c.Watch(ctx, list, o...)
			if err == nil {
				opened <- struct{}{}
			}
			return w, err
		},
	}), opened
}

// Await waits for as many watches as count.
func Await(t testing.TB, open <-chan struct{}, count int) {
	t.Helper()
	late := time.After(10 * time.Second)
	for i := range count {
		select {
		case <-open:
		case <-late:
			t.Fatalf("%d of %d watches are open after 10 seconds", i, count)
		}
	}
}
