package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A wait ends before its time with the first trouble that lasts, and not for one that
// passes, changes, or comes after its end.
func TestWaitsEndForTroublesThatLast(t *testing.T) {
	type look struct {
		at       time.Duration
		troubles []Trouble
	}
	for name, x := range map[string]struct {
		looks []look
		end   time.Duration // when the wait is met
		want  string
		after time.Duration
	}{
		"none":         {end: time.Minute},
		"one lasts":    {looks: []look{{0, []Trouble{{"a", 3 * time.Second}}}}, end: time.Minute, want: "a", after: 3 * time.Second},
		"noted again":  {looks: []look{{0, []Trouble{{"a", 3 * time.Second}}}, {2 * time.Second, []Trouble{{"a", 3 * time.Second}}}}, end: time.Minute, want: "a", after: 3 * time.Second},
		"one passes":   {looks: []look{{0, []Trouble{{"a", 3 * time.Second}}}, {2 * time.Second, nil}}, end: time.Minute},
		"it changes":   {looks: []look{{0, []Trouble{{"a", 3 * time.Second}}}, {2 * time.Second, []Trouble{{"b", 3 * time.Second}}}}, end: time.Minute, want: "b", after: 5 * time.Second},
		"the shortest": {looks: []look{{0, []Trouble{{"a", 30 * time.Second}, {"b", 3 * time.Second}}}}, end: time.Minute, want: "b", after: 3 * time.Second},
		"it comes back": {
			looks: []look{{0, []Trouble{{"a", 3 * time.Second}}}, {time.Second, nil}, {2 * time.Second, []Trouble{{"a", 3 * time.Second}}}},
			end:   time.Minute, want: "a", after: 5 * time.Second,
		},
		"met before": {looks: []look{{0, []Trouble{{"a", 3 * time.Second}}}}, end: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := WaitOrGiveUp(t.Context(), func(ctx context.Context, note func(...Trouble)) error {
					for _, l := range x.looks {
						time.Sleep(l.at - time.Since(began))
						note(l.troubles...)
					}
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(x.end - time.Since(began)):
						return nil
					}
				})
				var gaveUp *GaveUpError
				switch {
				case x.want == "" && err != nil, x.want != "" && !errors.As(err, &gaveUp):
					t.Errorf("got %v", err)
				case x.want != "" && (gaveUp.Text != x.want || time.Since(began) != x.after):
					t.Errorf("gave up for %q after %s", gaveUp.Text, time.Since(began))
				}
			})
		})
	}
}

// The first wait that ends ends the others, and its error counts.
func TestFirst(t *testing.T) {
	failed := errors.New("failed")
	for _, want := range []error{nil, failed} {
		others := 0
		err := First(t.Context(),
			func(context.Context) error { return want },
			func(ctx context.Context) error { <-ctx.Done(); others++; return ctx.Err() },
		)
		if !errors.Is(err, want) || others != 1 {
			t.Errorf("got %v, with %d others ended", err, others)
		}
	}
}
