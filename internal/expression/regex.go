package expression

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"sync/atomic"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/lru"
)

// states is about how many states a regular expression has once its repetitions
// are written out, which is what makes compiling and matching it slow: `(a{50}){20}`
// is short in writing and has a thousand. One with more than maxPattern is an error.
func states(pattern string) (int, error) {
	if c, ok := counts.Get(pattern); ok {
		return c.(counted).states, c.(counted).err
	}
	n, err := countStates(pattern)
	if len(pattern) <= maxPattern {
		counts.Add(pattern, counted{n, err})
	}
	return n, err
}

// counts are the states of the regular expressions that were last used.
var counts = lru.New(compiledExpressions)

type counted struct {
	states int
	err    error
}

func countStates(pattern string) (int, error) {
	if len(pattern) > maxPattern {
		return 0, fmt.Errorf("%w: a regular expression has %d bytes, and %d are allowed", ErrLimits, len(pattern), maxPattern)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("illegal regular expression: %w", err)
	}
	n := statesOf(parsed)
	if n > maxPattern {
		return 0, fmt.Errorf("%w: the regular expression %q has about %d states with its repetitions written out, and %d are allowed", ErrLimits, Excerpt(pattern), n, maxPattern)
	}
	return n, nil
}

func statesOf(r *syntax.Regexp) int {
	n := 1
	for _, sub := range r.Sub {
		n += statesOf(sub)
	}
	switch r.Op {
	case syntax.OpLiteral:
		n += len(r.Rune)
	case syntax.OpCharClass:
		n += len(r.Rune) / 16
	case syntax.OpRepeat:
		// At most a thousand, which the parser sees to.
		n *= max(1, r.Min, r.Max)
	}
	return n
}

// checkPatterns finds regular expressions in an expression that are beyond the
// limits, before CEL compiles them to check them. Illegal ones are CEL's business.
func checkPatterns(a *ast.AST) error {
	var found error
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !matchers.Has(e.AsCall().FunctionName()) {
			return
		}
		call, at := e.AsCall(), 1
		if call.IsMemberFunction() {
			at = 0
		}
		if len(call.Args()) <= at || call.Args()[at].Kind() != ast.LiteralKind {
			return
		}
		if pattern, ok := call.Args()[at].AsLiteral().(types.String); ok && found == nil {
			if _, err := states(string(pattern)); errors.Is(err, ErrLimits) {
				found = err
			}
		}
	}))
	return found
}

// matchers are the functions that take a regular expression.
var matchers = sets.New("matches", "find", "findAll")

// matcher is such a function, guarded. It keeps the last regular expression
// compiled, which mostly is the only one.
func matcher(function string) func([]ref.Val) ref.Val {
	var last atomic.Pointer[regexp.Regexp]
	return func(args []ref.Val) ref.Val {
		text, ok := textAt(args, 0)
		pattern, okPattern := textAt(args, 1)
		if !ok || !okPattern {
			return types.NewErr("no such overload: %s takes a text and a regular expression", function)
		}
		r := last.Load()
		if r == nil || r.String() != pattern {
			var err error
			if r, err = regexp.Compile(pattern); err != nil {
				return types.NewErr("illegal regular expression: %v", err)
			}
			last.Store(r)
		}
		switch function {
		case "matches":
			return types.Bool(r.MatchString(text))
		case "find":
			return types.String(r.FindString(text))
		}
		n := -1
		if len(args) > 2 {
			most, ok := args[2].(types.Int)
			if !ok {
				return types.NewErr("no such overload: %s takes a number as its last argument", function)
			}
			n = int(most)
		}
		return types.NewStringList(types.DefaultTypeAdapter, r.FindAllString(text, n))
	}
}
