package expression

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// guard looks at the arguments of a call before it is made, and returns an error
// for those that would take too long or too much memory. Arguments of other types
// than it knows are the function's business.
type guard func(args []ref.Val) ref.Val

// guards are those of the functions that can do much by one call.
var guards = map[string]guard{
	"replace":         guardReplace,
	"join":            guardJoin,
	"format":          guardFormat,
	"lists.range":     guardRange,
	"distinct":        guardPairs,
	"sets.contains":   guardPairs,
	"sets.equivalent": guardPairs,
	"sets.intersects": guardPairs,
	"matches":         guardPattern,
	"find":            guardPattern,
	"findAll":         guardPattern,
	"quantity":        guardQuantity,
	"isQuantity":      guardQuantity,
}

// guarded puts the guards before the calls of a program.
func guarded(env *cel.Env) cel.ProgramOption {
	return cel.CustomDecorator(func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok {
			return i, nil
		}
		check, ok := guards[call.Function()]
		if !ok {
			return i, nil
		}
		run := matcher(call.Function())
		if !matchers.Has(call.Function()) {
			var err error
			if run, err = implementation(env, call.Function(), call.OverloadID()); err != nil {
				return nil, err
			}
		}
		args := make([]interpreter.InterpretableV2, 0, len(call.Args()))
		for _, a := range call.Args() {
			args = append(args, plain{a})
		}
		return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), args, func(values ...ref.Val) ref.Val {
			if refusal := check(values); refusal != nil {
				return refusal
			}
			return run(values)
		}), nil
	})
}

// plain hides that an argument is a constant. CEL would compile a constant
// regular expression and call that instead, past the guard.
type plain struct{ interpreter.InterpretableV2 }

// implementation is what a function does.
func implementation(env *cel.Env, function, overload string) (func([]ref.Val) ref.Val, error) {
	bindings, err := env.Functions()[function].Bindings()
	if err != nil {
		return nil, err
	}
	var found *functions.Overload
	for _, b := range bindings {
		if b.Operator == overload || found == nil && b.Operator == function {
			found = b
		}
	}
	return func(args []ref.Val) ref.Val {
		switch {
		case found == nil:
		case len(args) == 1 && found.Unary != nil:
			return found.Unary(args[0])
		case len(args) == 2 && found.Binary != nil:
			return found.Binary(args[0], args[1])
		case found.Function != nil:
			return found.Function(args...)
		}
		if receiver, ok := args[0].(traits.Receiver); ok {
			return receiver.Receive(function, overload, args[1:])
		}
		return types.NewErr("no such overload: %s", function)
	}, nil
}

func tooMuch(format string, args ...any) ref.Val {
	return types.NewErr("more than an expression may do: "+format, args...)
}

func textAt(args []ref.Val, i int) (string, bool) {
	if i >= len(args) {
		return "", false
	}
	s, ok := args[i].(types.String)
	return string(s), ok
}

func sizeOf(v ref.Val) int {
	if list, ok := v.(traits.Lister); ok {
		n, _ := list.Size().(types.Int)
		return int(n)
	}
	return 0
}

func guardReplace(args []ref.Val) ref.Val {
	in, ok := textAt(args, 0)
	old, okOld := textAt(args, 1)
	by, okBy := textAt(args, 2)
	if ok && okOld && okBy && len(in)+strings.Count(in, old)*len(by) > maxText {
		return tooMuch("replace would make a text of more than %d bytes", maxText)
	}
	return nil
}

func guardJoin(args []ref.Val) ref.Val {
	between, _ := textAt(args, 1)
	if list, ok := args[0].(traits.Lister); ok && sizeOf(list)*(1+len(between)) > maxText {
		return tooMuch("join would make a text of more than %d bytes", maxText)
	}
	return nil
}

// precision is that of a number in a format, of four digits or more.
var precision = regexp.MustCompile(`%\.[0-9]{4}`)

func guardFormat(args []ref.Val) ref.Val {
	text, ok := textAt(args, 0)
	if !ok || len(args) < 2 {
		return nil
	}
	if precision.MatchString(text) {
		return tooMuch("format would write a number with a thousand digits or more")
	}
	if weigh(args[1], maxList)+len(text)/10 > maxList {
		return tooMuch("format would write more than %d values", maxList)
	}
	return nil
}

func guardRange(args []ref.Val) ref.Val {
	if n, ok := args[0].(types.Int); ok && n > maxList {
		return tooMuch("lists.range would make a list of more than %d elements", maxList)
	}
	return nil
}

// guardPairs is for functions that compare each element of a list with each of
// another one, or of the same.
func guardPairs(args []ref.Val) ref.Val {
	n := sizeOf(args[0])
	m := n
	if len(args) > 1 {
		m = sizeOf(args[1])
	}
	// What is in the elements counts, too: comparing them reads all of it.
	weight := weigh(args[0], maxPairs)
	if n*m > maxPairs || weight*max(1, m) > 10*maxPairs {
		return tooMuch("it would compare %s pairs of elements", strconv.Itoa(n*m))
	}
	return nil
}

// exponent is one of four digits or more, whose powers of ten are written out when
// quantities are compared.
var exponent = regexp.MustCompile(`[eE][+-]?[0-9]{4}`)

func guardQuantity(args []ref.Val) ref.Val {
	if text, ok := textAt(args, 0); ok && (len(text) > maxQuantity || exponent.MatchString(text)) {
		return tooMuch("a quantity with thousands of digits")
	}
	return nil
}

func guardPattern(args []ref.Val) ref.Val {
	text, ok := textAt(args, 0)
	pattern, okPattern := textAt(args, 1)
	if !ok || !okPattern {
		return nil
	}
	states, err := states(pattern)
	switch {
	case err != nil:
		return types.WrapErr(err)
	case states*(1+len(text)) > maxSteps:
		return tooMuch("a regular expression of about %d states on a text of %d bytes", states, len(text))
	}
	return nil
}
