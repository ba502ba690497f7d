package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

func object(version string, uid types.UID) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", ResourceVersion: version, UID: uid}}
}

func TestCopiesFromBeforeAWrite(t *testing.T) {
	none := object("", "")
	wrote := func(w *Written) { w.Wrote(object("7", "a")) }
	removed := func(w *Written) { w.Removed(object("7", "a")) }
	for name, tc := range map[string]struct {
		note  func(*Written)
		copy  client.Object
		after time.Duration
		want  bool
	}{
		"nothing was written":            {note: func(*Written) {}, copy: object("5", "a")},
		"an older copy":                  {note: wrote, copy: object("5", "a"), want: true},
		"the copy of the write":          {note: wrote, copy: object("7", "a")},
		"a newer copy":                   {note: wrote, copy: object("10", "a")},
		"no copy of what was made":       {note: wrote, copy: none, want: true},
		"an older copy for long":         {note: wrote, copy: object("5", "a"), after: CopyTimeout},
		"a copy of what was removed":     {note: removed, copy: object("5", "a"), want: true},
		"no copy of what was removed":    {note: removed, copy: none},
		"another one of that name":       {note: removed, copy: object("9", "b")},
		"a version that is not a number": {note: wrote, copy: object("v", "a")},
		"forgotten": {note: func(w *Written) {
			w.Wrote(object("7", "a"))
			w.Forget(client.ObjectKey{Name: "x"})
		}, copy: object("5", "a")},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakePassiveClock(time.Unix(1_900_000_000, 0))
			w := NewWritten(clk)
			tc.note(w)
			clk.SetTime(clk.Now().Add(tc.after))
			if got := w.IsBehind(client.ObjectKey{Name: "x"}, tc.copy); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
			if got := w.IsAwaited(client.ObjectKey{Name: "x"}); got != tc.want {
				t.Errorf("awaited: got %t, want %t", got, tc.want)
			}
		})
	}
}

// getter answers each Get with an object of a version; without one with an error.
type getter struct {
	client.Reader
	version string
	err     error
	asked   int
}

func (g *getter) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	g.asked++
	o.SetResourceVersion(g.version)
	return g.err
}

func TestReadsAfterAWrite(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{}, "x")
	broken := errors.New("no route to host")
	for name, tc := range map[string]struct {
		cached, server getter
		after          time.Duration
		want           string
		err            error
		asked          int  // the server
		behind         bool // a copy of version 5 is, from then on
	}{
		"the copy of the write":   {cached: getter{version: "7"}, want: "7"},
		"an older copy":           {cached: getter{version: "5"}, want: "5", err: ErrOutdated, behind: true},
		"none, as it was removed": {cached: getter{err: gone}, err: gone, behind: true},
		"an older copy for long": {
			cached: getter{version: "5"}, server: getter{version: "7"}, after: CopyTimeout, want: "7", asked: 1,
			behind: true,
		},
		"written by others as well": {
			cached: getter{version: "5"}, server: getter{version: "9"}, after: CopyTimeout, want: "9", asked: 1,
			behind: true,
		},
		"a server that was restored": {
			cached: getter{version: "5"}, server: getter{version: "6"}, after: CopyTimeout, want: "6", asked: 1,
		},
		"a server that has none": {
			cached: getter{version: "5"}, server: getter{err: gone}, after: CopyTimeout, err: gone, asked: 1,
		},
		"a server that is away": {
			cached: getter{version: "5"}, server: getter{err: broken}, after: CopyTimeout, err: broken, asked: 1,
			behind: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakePassiveClock(time.Unix(1_900_000_000, 0))
			w, key, o := NewWritten(clk), client.ObjectKey{Name: "x"}, object("", "")
			w.Wrote(object("7", "a"))
			clk.SetTime(clk.Now().Add(tc.after))
			err := w.Read(t.Context(), &tc.cached, &tc.server, key, o)
			if !errors.Is(err, tc.err) || o.GetResourceVersion() != tc.want || tc.server.asked != tc.asked {
				t.Errorf("got version %q, %v, the server was asked %d times; want %q, %v, %d",
					o.GetResourceVersion(), err, tc.server.asked, tc.want, tc.err, tc.asked)
			}
			if behind, _ := w.compare(key, object("5", "a")); behind != tc.behind {
				t.Errorf("an older copy counts as behind afterwards: %t, want %t", behind, tc.behind)
			}
		})
	}
}

func TestSoonest(t *testing.T) {
	for _, tc := range []struct {
		waits []time.Duration
		want  time.Duration
	}{
		{nil, 0}, {[]time.Duration{0, 0}, 0}, {[]time.Duration{0, 3, 2}, 2}, {[]time.Duration{1, 0}, 1},
	} {
		if got := Soonest(tc.waits...); got != tc.want {
			t.Errorf("of %v: got %d, want %d", tc.waits, got, tc.want)
		}
	}
}

// What is due is counted from the start of a reconcile, which may take its time.
func TestWaitsCountFromTheStart(t *testing.T) {
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "x"}}
	for name, tc := range map[string]struct {
		takes, after, want time.Duration
		atOnce             bool
	}{
		"shorter":             {takes: 2 * time.Second, after: 5 * time.Second, want: 3 * time.Second},
		"due already":         {takes: 9 * time.Second, after: 5 * time.Second, atOnce: true},
		"nothing to wait for": {takes: 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakeClock(time.Unix(1_900_000_000, 0))
			q := NewQueue("", Retry)
			requests := workqueue.NewTypedRateLimitingQueue(q.limiter)
			defer requests.ShutDown()
			_ = q.Start(t.Context(), requests)
			result, err := q.fromTheStart(clk, func(context.Context, reconcile.Request) (reconcile.Result, error) {
				clk.SetTime(clk.Now().Add(tc.takes))
				return reconcile.Result{RequeueAfter: tc.after}, nil
			})(t.Context(), request)
			if err != nil || result.RequeueAfter != tc.want || (requests.Len() == 1) != tc.atOnce {
				t.Errorf("got %v, %v, and %d in the queue", result, err, requests.Len())
			}
		})
	}
}

func TestRequestsBeforeTheStartAreKept(t *testing.T) {
	q := NewQueue("", Retry)
	q.Add(General)
	requests := workqueue.NewTypedRateLimitingQueue(q.limiter)
	defer requests.ShutDown()
	if err := q.Start(t.Context(), requests); err != nil || requests.Len() != 1 {
		t.Errorf("%d requests, and %v", requests.Len(), err)
	}
}

// An agent at rest has nothing to do, and what keeps metrics of a queue wakes up all the time.
func TestQueuesKeepNoMetrics(t *testing.T) {
	for name, clk := range map[string]clock.WithTicker{"metrics-own-clock": nil, "metrics-clock": clock.RealClock{}} {
		nowhere := &rest.Config{Host: "https://127.0.0.1:1"}
		e, err := New(Options{Hub: nowhere, ManagedCluster: nowhere, Log: slog.New(slog.DiscardHandler), Clock: clk})
		testkit.Must(t, err)
		queue, reconciled := NewQueue("", Retry), make(chan struct{})
		testkit.Must(t, e.AddController(Controller{
			Name: name, Queue: queue, Workers: 1,
			Reconcile: func(context.Context, reconcile.Request) (reconcile.Result, error) {
				close(reconciled)
				return reconcile.Result{}, nil
			},
		}))
		queue.Add("x")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.Start(ctx) }()
		<-reconciled
		families, err := metrics.Registry.Gather()
		testkit.Must(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				kept := slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == name })
				if kept && strings.HasPrefix(f.GetName(), "workqueue_") {
					t.Errorf("the queue of %s keeps %s", name, f.GetName())
				}
			}
		}
		stop()
		testkit.Must(t, <-ended)
	}
}

func TestCausesDifferNotByNumbers(t *testing.T) {
	of := func(text string) string { return cause(errors.New(text)) }
	if of("version 12 of 3") != of("version 15 of 4") || of("a") == of("b") {
		t.Error("causes differ by their numbers")
	}
}

// What keeps failing is logged once for each cause, and so is its end.
func TestFailuresAreLoggedOnceForEachCause(t *testing.T) {
	var log bytes.Buffer
	e := &Engine{log: slog.New(slog.NewTextHandler(&log, nil))}
	q := NewQueue("c1", Retry)
	var next error
	reconciled := func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, next }
	f := e.logFailures(Controller{Name: "manifestwork", Queue: q, Reconcile: reconciled})
	try := func(err error) {
		next = err
		if _, got := f(context.Background(), q.Request("w")); !errors.Is(got, err) {
			t.Errorf("got %v, want %v", got, err)
		}
		if err != nil {
			q.limiter.When(q.Request("w")) // as the controller does
		} else {
			q.Forget("w")
		}
	}
	for i := range MaxUnreported {
		try(fmt.Errorf("version %d", i))
	}
	if log.Len() > 0 {
		t.Errorf("a few failures are logged: %s", log.String())
	}
	for i := range 5 {
		try(fmt.Errorf("version %d", i))
		try(fmt.Errorf("%w: version %d", ErrWaiting, i))
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
	q := NewQueue("c1", Retry)
	q.limiter.When(q.Request("w"))
	q.limiter.When(q.Request("w"))
	if n := q.Failures("w"); n != 2 {
		t.Errorf("%d failures, want 2", n)
	}
	if q.Forget("w"); q.Failures("w") != 0 {
		t.Error("the failures are not forgotten")
	}
}
