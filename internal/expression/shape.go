package expression

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
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
// is not written out. It also is where loops over maps are charged for their keys. A map's type has its key's type in it and
// its value's, and a loop over what another loop has made has that one's types in
// its own: without this, a few bytes could double the types, again and again.
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
