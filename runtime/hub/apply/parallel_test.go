package apply_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
)

// The controllers of a hub are many, and its processors few.
func TestAllCallsShareTheProcessors(t *testing.T) {
	limit := int32(4 * runtime.GOMAXPROCS(0))
	var begun, calls atomic.Int32
	release := make(chan struct{})
	var together sync.WaitGroup
	for range runtime.GOMAXPROCS(0) { // each of them would have ten calls at a time by itself
		together.Go(func() {
			err := apply.Parallel(20, func(int) error {
				begun.Add(1)
				<-release
				calls.Add(1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for begun.Load() < limit {
		runtime.Gosched()
	}
	for range 1000 { // what others there are could begin now
		runtime.Gosched()
	}
	if n := begun.Load(); n != limit {
		t.Errorf("%d calls ran at a time, want %d", n, limit)
	}
	close(release)
	together.Wait()
	if want := int32(20 * runtime.GOMAXPROCS(0)); calls.Load() != want {
		t.Errorf("%d calls, want %d", calls.Load(), want)
	}
}

func TestEachCallRunsAndTheFirstErrorsAreJoined(t *testing.T) {
	broken := errors.New("broken")
	tests := map[string]struct {
		do   func(i int) error
		want []string
	}{
		"no error": {func(int) error { return nil }, nil},
		"one error": {func(i int) error {
			if i == 7 {
				return broken
			}
			return nil
		}, []string{"broken"}},
		"many errors": {
			func(i int) error { return fmt.Errorf("cluster %d: %w", i, broken) },
			[]string{"cluster 0: broken", "cluster 2: broken", "and 17 more of the kind"},
		},
		"a panic": {func(i int) error {
			if i == 3 {
				panic("odd object")
			}
			return nil
		}, []string{"panic: odd object"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			err := apply.Parallel(20, func(i int) error {
				calls.Add(1)
				return tt.do(i)
			})
			if calls.Load() != 20 {
				t.Errorf("%d calls, want 20", calls.Load())
			}
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("got %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
		})
	}
}
