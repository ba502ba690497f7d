package retry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

var errNo = errors.New("no")

// awaitTimer returns when something waits for the clock.
func awaitTimer(t *testing.T, c *clocktesting.FakeClock) {
	t.Helper()
	testkit.Eventually(t, func() error {
		if !c.HasWaiters() {
			return errors.New("nothing waits for the clock")
		}
		return nil
	})
}

func plain(first, limit time.Duration) wait.Backoff {
	return wait.Backoff{Duration: first, Factor: 2, Steps: 30, Cap: limit}
}

func TestUntilTriesAgainByItsClock(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1_900_000_000, 0))
	attempts := make(chan int, 10)
	done := make(chan error)
	go func() {
		n := 0
		done <- retry.Until(t.Context(), clk, plain(time.Second, time.Minute), func(context.Context) error {
			n++
			attempts <- n
			if n < 3 {
				return errNo
			}
			return nil
		})
	}()
	for i, d := range []time.Duration{time.Second, 2 * time.Second} {
		if got := <-attempts; got != i+1 {
			t.Fatalf("attempt %d, want %d", got, i+1)
		}
		awaitTimer(t, clk)
		clk.Step(d - time.Millisecond)
		if len(attempts) != 0 {
			t.Fatalf("tried again before %s were over", d)
		}
		clk.Step(time.Millisecond)
	}
	if err := <-done; err != nil {
		t.Errorf("got %v", err)
	}
}

func TestUntilEndsWithItsContext(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1_900_000_000, 0))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- retry.Until(ctx, clk, plain(time.Hour, time.Hour), func(context.Context) error { return errNo })
	}()
	awaitTimer(t, clk)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if clk.HasWaiters() {
		t.Error("its timer is left")
	}
}

func TestWaitsGrowUpToTheLimitAndResetMakesThemShort(t *testing.T) {
	b := retry.New(clocktesting.NewFakeClock(time.Now()), plain(time.Second, 5*time.Second))
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		if got := b.Next(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	b.Reset()
	if got := b.Next(); got != time.Second {
		t.Errorf("after a reset: got %s", got)
	}
}

func TestWakeEndsTheWaitAndMakesTheNextOneShort(t *testing.T) {
	b := retry.New(clocktesting.NewFakeClock(time.Now()), plain(time.Second, time.Minute))
	b.Next()
	b.Next()
	wake := make(chan struct{}, 1)
	wake <- struct{}{}
	b.Wait(t.Context(), wake) // the clock stands still, so only wake ends it
	if got := b.Next(); got != time.Second {
		t.Errorf("the next wait is %s, want the first one", got)
	}
}

func TestPoliciesStayWithinTheirLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		policy wait.Backoff
		limit  time.Duration
	}{
		"quick":   {retry.Quick(30 * time.Second), 45 * time.Second},
		"start":   {retry.Start(time.Minute), 90 * time.Second},
		"restart": {retry.Restart(time.Minute), 90 * time.Second},
		"watch":   {retry.Watch(), 20 * time.Second},
	} {
		b := retry.New(clocktesting.NewFakeClock(time.Now()), tc.policy)
		for range 100 {
			if got := b.Next(); got < 100*time.Millisecond || got > tc.limit {
				t.Errorf("%s: waits %s", name, got)
			}
		}
	}
}

func TestOnce(t *testing.T) {
	var o retry.Once
	for i, step := range []struct {
		text string
		want bool
	}{{"a", true}, {"a", false}, {"b", true}, {"a", true}} {
		if got := o.Changed(step.text); got != step.want {
			t.Errorf("%d: %q: got %v", i, step.text, got)
		}
	}
	if !o.Clear() || o.Clear() || !o.Changed("a") {
		t.Error("Clear does not forget")
	}
	var each retry.OnceEach[string]
	if !each.Changed("x", "a") || !each.Changed("y", "a") || each.Changed("x", "a") || !each.Clear("x") || each.Clear("z") || each.Changed("y", "a") {
		t.Error("keys are not distinguished")
	}
}
