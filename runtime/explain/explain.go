// Package explain says why an object of a hub is in the state that it is in, and what to
// do next. It consists of pure functions from objects to findings: the command line
// prints them, and the hub's web page shows them. Who calls it reads the objects, with
// the rights of the one who asks, and leaves out what may not be read.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
)

// Level is how much a finding is in need of somebody.
type Level string

// Levels, the least first.
const (
	OK      Level = "ok"      // all is as it should be
	Waiting Level = "waiting" // something is on its way, or a decision is awaited
	Warning Level = "warning" // it works, and something about it should be looked at
	Problem Level = "problem" // it does not do what it should
)

// Rank orders levels: the higher, the worse.
func (l Level) Rank() int { return slices.Index([]Level{OK, Waiting, Warning, Problem}, l) }

// Explanation is what there is to say about one object.
type Explanation struct {
	// Kind, Namespace and Name are the object's.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Level is the worst of the causes.
	Level Level `json:"level"`
	// State says in a sentence how the object is.
	State string `json:"state"`
	// Causes are why, the worst first.
	Causes []Cause `json:"causes,omitempty"`
	// Hidden says what could not be read, so that the causes may be incomplete.
	Hidden []string `json:"hidden,omitempty"`
}

// Cause is one reason for the state of an object.
type Cause struct {
	Level Level `json:"level"`
	// Summary says it in a sentence.
	Summary string `json:"summary"`
	// Evidence is what the objects say: conditions, events, times.
	Evidence []string `json:"evidence,omitempty"`
	// Next are the steps to take, the first one first.
	Next []Step `json:"next,omitempty"`
}

// Step is what to do next.
type Step struct {
	// Do says what the step is for.
	Do string `json:"do"`
	// Command does it, or shows what to look at; "" when no command does.
	Command string `json:"command,omitempty"`
	// In is the managed cluster in which the command is to be run; "" is the hub.
	In string `json:"inCluster,omitempty"`
}

// Event is what was said about an object.
type Event struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Time    time.Time `json:"time"`
}

// add adds causes, sorts the worst to the front, and raises the level to theirs.
func (e *Explanation) add(causes ...Cause) {
	e.Causes = append(e.Causes, causes...)
	slices.SortStableFunc(e.Causes, func(a, b Cause) int { return cmp.Compare(b.Level.Rank(), a.Level.Rank()) })
	if e.Level == "" {
		e.Level = OK
	}
	for i := range causes {
		if causes[i].Level.Rank() > e.Level.Rank() {
			e.Level = causes[i].Level
		}
	}
}

// maxListed is how many names a sentence lists.
const maxListed = 10

// some are the first of some names, and how many more there are.
func some(names []string) string { return text.List(names, maxListed) }

// says is a condition as evidence.
func says(c *metav1.Condition, now time.Time) string {
	out := fmt.Sprintf("condition %s is %s", c.Type, c.Status)
	if c.Reason != "" {
		out += " (" + c.Reason + ")"
	}
	if !c.LastTransitionTime.IsZero() {
		out += " since " + ago(c.LastTransitionTime.Time, now)
	}
	if c.Message != "" {
		out += ": " + oneLine(c.Message)
	}
	return out
}

// oneLine is a message without line breaks, and cut if it is very long.
func oneLine(s string) string { return text.Cut(strings.Join(strings.Fields(s), " "), 1000) }

// ago is a moment and how long it has passed: "2026-11-23T20:00:00Z (5m ago)".
func ago(t, now time.Time) string {
	return fmt.Sprintf("%s (%s ago)", t.UTC().Format(time.RFC3339), lasted(now.Sub(t)))
}

// lasted is a duration in two units at most.
func lasted(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }

// plural is a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
