package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

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
		Setup(&out, tc.verbosity, false)
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
	logger := Setup(&out, 1, true)
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

// What is said at the levels at which libraries show bodies is said to nobody,
// whatever was asked for.
func TestBodiesAreNeverLogged(t *testing.T) {
	for _, verbosity := range []int{6, 7, 8, 10, 100} {
		var out bytes.Buffer
		logger := Setup(&out, verbosity, false)
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
