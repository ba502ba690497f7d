package expression

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync/atomic"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/lru"
)

// What an expression may be made of. CEL's checker follows the types of all that
// an expression makes, in time that grows with the depth of these types times the
// number of nodes, and nothing interrupts it.
const (
	// maxDoubling is how many calls of optMap and optFlatMap there may be. Each
	// stands for an expression that has what it is called on in it twice.
	maxDoubling = 4
	// maxLoops is how many loops there may be (all, exists, map, filter and the
	// like), in each other or not, maxDepth how many lists, maps and optionals may be
	// made in each other, and maxNodes how many nodes there may be.
	maxLoops = 32
	maxDepth = 16
	maxNodes = 1_500
)

// checkText refuses an expression whose parsing would take long.
func checkText(text string) error {
	if err := checkLength(text); err != nil {
		return err
	}
	if n := strings.Count(text, "optMap") + strings.Count(text, "optFlatMap"); n > maxDoubling {
		return fmt.Errorf("%w: it has %d calls of optMap and optFlatMap, and %d are allowed: use orValue, or two expressions", ErrLimits, n, maxDoubling)
	}
	return nil
}

// checkShape refuses an expression whose checking would take long.
func checkShape(a *ast.AST) error {
	loops, nodes := 0, 0
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		nodes++
		if e.Kind() == ast.ComprehensionKind {
			loops++
		}
	}))
	switch {
	case loops > maxLoops:
		return fmt.Errorf("%w: it has %d loops such as all, exists, map and filter, and %d are allowed: use fewer, or two expressions", ErrLimits, loops, maxLoops)
	case nodes > maxNodes:
		return fmt.Errorf("%w: it has %d parts, and %d are allowed: shorten it", ErrLimits, nodes, maxNodes)
	}
	if n := depth(a.Expr()); n > maxDepth {
		return fmt.Errorf("%w: it makes %d lists and maps in each other, and %d are allowed", ErrLimits, n, maxDepth)
	}
	return nil
}

// loosen hides types from CEL's checker behind dyn, which leaves the values as
// they are: those of the keys of maps, and those of what loops run over where it
// is not written out. It also is where loops over maps are charged for their keys. A
// map's type has its key's type in it and its value's, and a loop over what another loop
// has made has that one's types in its own: without this, a few bytes could double the
// types, again and again.
func loosen(a *ast.AST) {
	l := &loosener{ast: a, last: ast.MaxID(a), factory: ast.NewExprFactory()}
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.MapKind:
			for _, entry := range e.AsMap().Entries() {
				l.hide(entry.AsMapEntry().Key())
			}
		case ast.ComprehensionKind:
			l.hide(e.AsComprehension().IterRange())
			l.condition(e.AsComprehension().LoopCondition())
		}
	}))
}

type loosener struct {
	ast     *ast.AST
	last    int64
	factory ast.ExprFactory
}

// hide puts an expression into dyn.
func (l *loosener) hide(e ast.Expr) {
	if !isPlain(e) {
		l.into("dyn", e)
	}
}

// condition makes a loop's condition that is always true a call, which all other
// loops have.
func (l *loosener) condition(e ast.Expr) {
	if e.Kind() == ast.LiteralKind {
		l.into(operators.NotStrictlyFalse, e)
	}
}

// into puts an expression into a call of a function.
func (l *loosener) into(function string, e ast.Expr) {
	l.last++
	was := l.factory.NewUnspecifiedExpr(l.last)
	was.SetKindCase(l.factory.CopyExpr(e))
	if at, ok := l.ast.SourceInfo().GetOffsetRange(e.ID()); ok {
		l.ast.SourceInfo().SetOffsetRange(l.last, at)
	}
	e.SetKindCase(l.factory.NewCall(e.ID(), function, was))
}

// isPlain reports whether an expression is written out in full.
func isPlain(e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind:
		return true
	case ast.ListKind:
		for _, x := range e.AsList().Elements() {
			if !isPlain(x) {
				return false
			}
		}
		return true
	}
	return false
}

// depth is how many lists, maps and optionals are made in each other.
func depth(e ast.Expr) int {
	inner, own := 0, 0
	each := func(of ...ast.Expr) {
		for _, x := range of {
			inner = max(inner, depth(x))
		}
	}
	switch e.Kind() {
	case ast.ListKind:
		own = 1
		each(e.AsList().Elements()...)
	case ast.MapKind:
		own = 1
		for _, entry := range e.AsMap().Entries() {
			each(entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.SelectKind:
		each(e.AsSelect().Operand())
	case ast.CallKind:
		if strings.HasPrefix(e.AsCall().FunctionName(), "optional.") {
			own = 1
		}
		if e.AsCall().IsMemberFunction() {
			each(e.AsCall().Target())
		}
		each(e.AsCall().Args()...)
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		each(c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result())
	}
	return own + inner
}

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
