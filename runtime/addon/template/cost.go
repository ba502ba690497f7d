package template

import (
	"encoding/json"
	"fmt"
	"regexp/syntax"
)

const (
	// maxGrowth is by how many bytes values of placeholders and a configuration may
	// make an add-on larger. It is beyond what several works can carry, and keeps a
	// small template with a large configuration from filling the memory.
	maxGrowth = 8 << 20
	// maxSteps is how many steps the rules of a configuration and of a template may take
	// to be compared, each of some ten nanoseconds.
	maxSteps = 20_000_000
	// maxStates is how many states the regular expressions of a configuration may have
	// together once their repetitions are written out.
	maxStates = 20_000
	// overhead is what a field that a configuration adds takes beside its texts, in bytes.
	overhead = 32
)

// budget is what rendering an add-on in one cluster may still cost: bytes that it grows
// by, and steps.
type budget struct{ bytes, steps int }

func newBudget() *budget { return &budget{maxGrowth, maxSteps} }

// grow charges for bytes. what is what they are for, for the message.
func (b *budget) grow(bytes int, what string) error {
	if b.bytes -= bytes; b.bytes < 0 {
		return fmt.Errorf("%s would make the add-on more than %d bytes larger than its template says, "+
			"together with the values of placeholders: shorten them, or have fewer manifests and containers that get them",
			what, maxGrowth)
	}
	return nil
}

// step charges for steps. what is what is compared, for the message.
func (b *budget) step(steps int, what string) error {
	if b.steps -= steps; b.steps < 0 {
		return fmt.Errorf("%s would take more than %d steps to be compared: "+
			"have fewer of them, or fewer manifests and containers", what, maxSteps)
	}
	return nil
}

// sizeOf is how many bytes a value takes as JSON.
func sizeOf(value any) int {
	data, err := json.Marshal(value)
	if err != nil {
		return 0 // it came as JSON
	}
	return len(data)
}

// statesOf is about how many states a regular expression has once its repetitions are
// written out, up to the first count beyond maxStates: (a{50}){20} has a thousand.
func statesOf(r *syntax.Regexp) int {
	n := 1
	for _, sub := range r.Sub {
		n = min(n+statesOf(sub), maxStates+1)
	}
	switch r.Op {
	case syntax.OpLiteral:
		n += len(r.Rune)
	case syntax.OpCharClass:
		n += len(r.Rune) / 16
	case syntax.OpRepeat:
		n *= max(1, r.Min, r.Max) // at most a thousand, which the parser sees to
	}
	return min(n, maxStates+1)
}
