// Package recovery turns a panic into the error of the object at hand.
//
// Hub and agents run libraries on objects that others write: CEL, jq, selectors,
// merges. controller-runtime recovers from a panic in the goroutine of a
// reconciler, and net/http in that of a request. A goroutine beside these would
// end the process, and with it what it does for all other objects. So such a
// goroutine recovers by itself.
package recovery

import (
	"context"
	"fmt"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Into recovers from a panic of the function that defers it, logs the panic with
// its stack, and makes it the error that the function returns:
//
//	defer recovery.Into(&err)
//
// Without a panic it changes nothing.
func Into(err *error) {
	p := recover()
	if p == nil {
		return
	}
	for _, log := range utilruntime.PanicHandlers {
		log(context.Background(), p)
	}
	*err = fmt.Errorf("an internal error (panic: %v), which the log has in full", p)
}

// Call calls f and returns its error; a panic of f is its error, as with Into.
func Call(f func() error) (err error) {
	defer Into(&err)
	return f()
}
