package operation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
)

// Listener hears what an operation does. Its functions may be called from several
// goroutines, one at a time.
type Listener struct {
	// Progress is told what has happened, or what is being waited for.
	Progress func(text string)
	// Warning is told what does not make the operation fail.
	Warning func(summary, detail string)
	// Clock is for tests; nil is the real one.
	Clock clock.WithTicker
}

const (
	// looksEvery is how often a wait looks at what no watch tells it.
	looksEvery = time.Second
	// remindsEvery is how often a wait says that it still waits.
	remindsEvery = 20 * time.Second
)

// teller tells a listener each thing once, and what a wait is at from time to time.
type teller struct {
	Listener

	mu       sync.Mutex
	begun    time.Time
	last     string
	lastTime time.Time
}

func newTeller(l Listener) *teller {
	if l.Clock == nil {
		l.Clock = clock.RealClock{}
	}
	now := l.Clock.Now()
	return &teller{Listener: l, begun: now, lastTime: now}
}

// say tells a thing, unless it was the last one.
func (t *teller) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if text == t.last {
		return
	}
	t.last, t.lastTime = text, t.Clock.Now()
	if t.Progress != nil {
		t.Progress(text)
	}
}

func (t *teller) warn(summary, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Warning != nil {
		t.Warning(summary, fmt.Sprintf(format, args...))
	}
}

// remind says that the wait goes on, when nothing was said for a while.
func (t *teller) remind() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.Clock.Now()
	if t.Progress == nil || t.last == "" || now.Sub(t.lastTime) < remindsEvery {
		return
	}
	t.lastTime = now
	t.Progress(fmt.Sprintf("%s [%s]", strings.TrimSuffix(t.last, "."), now.Sub(t.begun).Round(time.Second)))
}

// looking runs wait, and beside it look at regular intervals. look may be nil.
func (t *teller) looking(ctx context.Context, look func(context.Context), wait func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		ticker := t.Clock.NewTicker(looksEvery)
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
			t.remind()
		}
	})
	return wait(ctx)
}

// refuse is the error of an operation that can't do what it was asked for.
func refuse(summary, format string, args ...any) error {
	return &hub.RefusalError{Err: errors.New(summary), Summary: summary, Detail: fmt.Sprintf(format, args...)}
}

// interrupted tells what an interruption leaves. Other errors stay what they are.
func interrupted(ctx context.Context, err error, leaves string) error {
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return refuse("Interrupted", "%s", leaves)
}

// some lists the first names, and says how many there are beyond.
func some(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
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
