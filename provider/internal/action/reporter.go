package action

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
)

const (
	// looksEvery is how often a wait looks at what no watch shows.
	looksEvery = time.Second
	// remindsEvery is how often a wait says that it still waits.
	remindsEvery = 20 * time.Second
)

// reporter shows each thing that an action does once, and from time to time what it
// waits for. It may be used from several goroutines, and calls its functions one at a
// time.
type reporter struct {
	// progress gets what has happened, or what is being waited for; warning what does
	// not make the action fail.
	progress func(text string)
	warning  func(summary, detail string)
	Clock    clock.WithTicker

	mu       sync.Mutex
	begun    time.Time
	last     string
	lastTime time.Time
}

func newReporter(progress func(text string), warning func(summary, detail string)) *reporter {
	r := &reporter{progress: progress, warning: warning, Clock: clock.RealClock{}}
	r.begun = r.Clock.Now()
	r.lastTime = r.begun
	return r
}

// say shows a text, unless it was the last one.
func (r *reporter) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if text == r.last {
		return
	}
	r.last, r.lastTime = text, r.Clock.Now()
	r.progress(text)
}

func (r *reporter) warn(summary, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warning(summary, fmt.Sprintf(format, args...))
}

// remind says that the wait goes on, when nothing was said for a while.
func (r *reporter) remind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock.Now()
	if r.last == "" || now.Sub(r.lastTime) < remindsEvery {
		return
	}
	r.lastTime = now
	r.progress(fmt.Sprintf("%s [%s]", strings.TrimSuffix(r.last, "."), now.Sub(r.begun).Round(time.Second)))
}

// looking runs wait, and beside it look at regular intervals. look may be nil.
func (r *reporter) looking(ctx context.Context, look func(context.Context), wait func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		ticker := r.Clock.NewTicker(looksEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
			}
			if look != nil {
				look(ctx)
			}
			r.remind()
		}
	})
	return wait(ctx)
}

// refuse is the error of an operation that can't do what it was asked for.
func refuse(summary, format string, args ...any) error {
	return &hub.RefusalError{Err: errors.New(summary), Summary: summary, Detail: fmt.Sprintf(format, args...)}
}

// interrupted is the error that says what an interruption leaves. Other errors stay what they are.
func interrupted(ctx context.Context, err error, leaves string) error {
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return refuse("Interrupted", "%s", leaves)
}

// lines puts several of them below each other.
func lines(list ...string) string { return attribute.JoinLines(list) }

// plural is "1 work", "2 works".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
