package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

func TestWhatIsLogged(t *testing.T) {
	say := func() {
		slog.Info("hub ready")
		slog.Warn("disk slow")
		klog.Info("Starting controller")
		klog.Warning("deprecated thing")
		klog.ErrorS(errors.New("boom"), "Sync failed")
		klog.ErrorS(errors.New(`namespaces "kube-system" not found`), "Failed to ensure lease exists, will retry")
		klog.V(4).Info("detail")
	}
	for _, tc := range []struct {
		verbosity int
		want, not []string
	}{
		{0, []string{"hub ready", "disk slow", "Sync failed", "boom"}, []string{"Starting controller", "deprecated", "ensure lease", "detail"}},
		{1, []string{"hub ready", "Starting controller", "deprecated", "ensure lease"}, []string{"detail"}},
		{5, []string{"detail"}, nil},
	} {
		var out bytes.Buffer
		Setup(t.Context(), &out, tc.verbosity, false)
		say()
		klog.Flush()
		for _, w := range tc.want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("-v=%d: %q is missing in\n%s", tc.verbosity, w, &out)
			}
		}
		for _, w := range tc.not {
			if strings.Contains(out.String(), w) {
				t.Errorf("-v=%d: %q should not be in\n%s", tc.verbosity, w, &out)
			}
		}
	}
}

func TestJSONLinesAreJSON(t *testing.T) {
	var out bytes.Buffer
	logger := Library(Setup(t.Context(), &out, 1, true))
	slog.Info("one", "n", 1)
	klog.InfoS("two", "n", 2)
	logger.Info("three", "n", 3)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("got %d lines, want 3:\n%s", len(lines), &out)
	}
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Errorf("not JSON: %s", l)
		}
	}
}

// Lines of the levels at which libraries show bodies are never written, whatever
// verbosity was asked for.
func TestBodiesAreNeverLogged(t *testing.T) {
	for _, verbosity := range []int{6, 7, 8, 10, 100} {
		var out bytes.Buffer
		logger := Library(Setup(t.Context(), &out, verbosity, false))
		for level := 7; level <= 12; level++ {
			klog.V(klog.Level(level)).InfoS("Response Body", "body", "hunter2")
			logger.V(level).Info("Response Body", "body", "hunter2")
			klog.Background().V(level).Info("Response Body", "body", "hunter2")
		}
		klog.Flush()
		if strings.Contains(out.String(), "hunter2") {
			t.Errorf("-v=%d: a body is in the log:\n%s", verbosity, &out)
		}
	}
}

func TestVerbosityHasBounds(t *testing.T) {
	for verbosity, ok := range map[int]bool{-1: false, 0: true, 6: true, 7: false, 10: false} {
		if err := CheckVerbosity(verbosity); (err == nil) != ok {
			t.Errorf("%d: got %v", verbosity, err)
		}
	}
}

// What a stop brings about is expected at a stop only: before, it says that the
// server is overloaded.
func TestErrorsOfAStopAreLoggedBeforeIt(t *testing.T) {
	var out bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	Setup(ctx, &out, 0, false)
	say := func() string {
		out.Reset()
		utilruntime.HandleErrorWithContext(t.Context(), nil, "Timeout or abort while handling", "method", "GET")
		utilruntime.HandleErrorWithContext(t.Context(), errors.New("http: Handler timeout"), "Unhandled write")
		klog.Errorf("Unable to remove peer endpoint leases: %v", "no")
		klog.Flush()
		return out.String()
	}
	if got := say(); strings.Count(got, "level=ERROR") != 3 {
		t.Errorf("before the stop:\n%s", got)
	}
	stop()
	if got := say(); got != "" {
		t.Errorf("at the stop:\n%s", got)
	}
}

// Only messages, errors and the names of loggers are looked at, so that a name or
// a path that a user chose hides nothing.
func TestOtherAttributesHideNoError(t *testing.T) {
	var out bytes.Buffer
	Setup(t.Context(), &out, 0, false)
	klog.ErrorS(errors.New("disk full"), "Write failed", "object", "context canceled", "path", `namespaces "default" not found`)
	klog.Flush()
	if !strings.Contains(out.String(), "disk full") {
		t.Errorf("the error is missing in %q", &out)
	}
	out.Reset()
	klog.ErrorS(errors.New("get lease: context canceled"), "Renewal failed")
	klog.Errorf("watch of pods: %v", errors.New("context canceled"))
	klog.Flush()
	if out.Len() > 0 {
		t.Errorf("a client that went away is logged: %s", &out)
	}
}

// The lines of libraries that get the context say which cluster they are about.
func TestContextHandsTheLoggersAttributesToLibraries(t *testing.T) {
	var out bytes.Buffer
	log := Setup(t.Context(), &out, 1, false).With("cluster", "paris")
	klog.FromContext(NewContext(t.Context(), log)).Info("Watch closed")
	if got := out.String(); !strings.Contains(got, "cluster=paris") || !strings.Contains(got, "level=DEBUG") {
		t.Errorf("got %q", got)
	}
}

// Errors with the same message are written a few at a time, and others as they come.
func TestRepeatedErrorsAreLimited(t *testing.T) {
	var out bytes.Buffer
	h := libraryHandler{next: slog.NewTextHandler(&out, nil), repeats: &repeats{}}.
		WithAttrs([]slog.Attr{slog.String("controller", "one")})
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write := func(after time.Duration, level slog.Level, message string, times int) []string {
		t.Helper()
		out.Reset()
		for range times {
			if err := h.Handle(t.Context(), slog.NewRecord(start.Add(after), level, message, 0)); err != nil {
				t.Fatal(err)
			}
		}
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}

	lines := write(0, slog.LevelError, "request timed out", 1000)
	if len(lines) != MostRepeats {
		t.Errorf("%d of 1000 errors are written, want %d", len(lines), MostRepeats)
	}
	if last := lines[len(lines)-1]; !strings.Contains(last, "nextAfter="+RepeatsWindow.String()) {
		t.Errorf("the last one does not say that others are left out: %s", last)
	}
	if lines := write(time.Second, slog.LevelError, "disk full", 1); !strings.Contains(lines[0], "disk full") {
		t.Errorf("another error is not written: %q", lines)
	}
	lines = write(RepeatsWindow, slog.LevelError, "request timed out", 2)
	if len(lines) != 2 || !strings.Contains(lines[0], "leftOutBefore=980") || strings.Contains(lines[1], "leftOut") {
		t.Errorf("after the window only the first is to say that 980 were left out:\n%s", strings.Join(lines, "\n"))
	}
	if lines := write(2*RepeatsWindow, slog.LevelError, "disk full", 1); strings.Contains(lines[0], "leftOut") {
		t.Errorf("none of that message was left out: %s", lines[0])
	}
}
