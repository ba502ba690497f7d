package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// What keeps failing is logged once for each cause, and so is its end.
func TestFailuresAreLoggedOnceForEachCause(t *testing.T) {
	var log bytes.Buffer
	a := &agent{log: slog.New(slog.NewTextHandler(&log, nil))}
	q := newQueue("c1")
	var next error
	f := a.logFailures("manifestwork", q, func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, next })
	try := func(err error) {
		next = err
		if _, got := f(context.Background(), q.request("w")); !errors.Is(got, err) {
			t.Errorf("got %v, want %v", got, err)
		}
		if err != nil {
			q.limiter.When(q.request("w")) // as the controller does
		} else {
			q.forget("w")
		}
	}
	for i := range passing {
		try(fmt.Errorf("version %d", i))
	}
	if log.Len() > 0 {
		t.Errorf("a few failures are logged: %s", log.String())
	}
	for i := range 5 {
		try(fmt.Errorf("version %d", i))
		try(fmt.Errorf("%w: version %d", errWaiting, i))
	}
	try(errors.New("another cause"))
	if n := strings.Count(log.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings for two causes:\n%s", n, log.String())
	}
	try(nil)
	try(nil)
	if n := strings.Count(log.String(), "level=INFO"); n != 1 {
		t.Errorf("its end is logged %d times:\n%s", n, log.String())
	}
}

func TestFailuresAreCountedUntilTheyAreForgotten(t *testing.T) {
	q := newQueue("c1")
	q.limiter.When(q.request("w"))
	q.limiter.When(q.request("w"))
	if n := q.failures("w"); n != 2 {
		t.Errorf("%d failures, want 2", n)
	}
	if q.forget("w"); q.failures("w") != 0 {
		t.Error("the failures are not forgotten")
	}
}
