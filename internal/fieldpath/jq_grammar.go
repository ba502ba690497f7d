package fieldpath

import (
	"fmt"
	"strconv"

	"github.com/itchyny/gojq"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
)

// grammar checks that an expression is a path.
type grammar struct{ terms int }

func notAPath(what string) error {
	return fmt.Errorf("%s is more than a path: use names, indices, .[], select() and comparisons, such as .spec.containers[] | select(.name == \"a\")", what)
}

// enter is called for each expression. A comment is an empty one.
func (g *grammar) enter(q *gojq.Query, depth int) error {
	if q == nil || q.Term == nil && (q.Left == nil || q.Right == nil) {
		return errEmpty
	}
	return g.count(depth)
}

func (g *grammar) count(depth int) error {
	g.terms++
	if g.terms > maxTerms || depth > maxNesting {
		return fmt.Errorf("it has more than %d terms, or is nested deeper than %d", maxTerms, maxNesting)
	}
	return nil
}

func (g *grammar) path(q *gojq.Query, depth int) error {
	if err := g.enter(q, depth); err != nil {
		return err
	}
	switch {
	case q.Meta != nil || len(q.Imports) > 0 || len(q.FuncDefs) > 0 || len(q.Patterns) > 0:
		return notAPath("a definition")
	case q.Term != nil:
		return g.pathTerm(q.Term, depth)
	case q.Op == gojq.OpPipe || q.Op == gojq.OpComma:
		if err := g.path(q.Left, depth); err != nil {
			return err
		}
		return g.path(q.Right, depth)
	}
	return notAPath("the operator " + q.Op.String())
}

func (g *grammar) pathTerm(t *gojq.Term, depth int) error {
	if err := g.count(depth); err != nil {
		return err
	}
	var err error
	switch t.Type {
	case gojq.TermTypeIdentity:
	case gojq.TermTypeIndex:
		err = g.index(t.Index)
	case gojq.TermTypeQuery:
		err = g.path(t.Query, depth+1)
	case gojq.TermTypeFunc:
		if t.Func.Name != "select" || len(t.Func.Args) != 1 {
			return notAPath(t.Func.Name)
		}
		err = g.condition(t.Func.Args[0], depth+1)
	default:
		return notAPath(excerpt(t.String()))
	}
	for _, s := range t.SuffixList {
		if err == nil && s.Index != nil {
			err = g.index(s.Index)
		}
		if err == nil {
			err = g.count(depth)
		}
	}
	return err
}

func (g *grammar) index(i *gojq.Index) error {
	if i.Str != nil && i.Str.Queries != nil {
		return notAPath("a text with \\( )")
	}
	if i.Name != "" || i.Str != nil {
		return nil
	}
	for _, bound := range []*gojq.Query{i.Start, i.End} {
		if bound == nil {
			continue
		}
		if err := g.enter(bound, 0); err != nil {
			return err
		}
		v, ok := literal(bound)
		if _, text := v.(string); !ok || text && i.IsSlice {
			return notAPath("the index " + excerpt(bound.String()))
		}
		switch v.(type) {
		case string, int64:
		default:
			return notAPath("the index " + excerpt(bound.String()))
		}
	}
	return nil
}

// condition checks what select() is given.
func (g *grammar) condition(q *gojq.Query, depth int) error {
	if err := g.enter(q, depth); err != nil {
		return err
	}
	if q.Meta != nil || len(q.Imports) > 0 || len(q.FuncDefs) > 0 || len(q.Patterns) > 0 {
		return notAPath("a definition")
	}
	if _, ok := literal(q); ok {
		return nil
	}
	switch q.Op {
	case gojq.OpEq, gojq.OpNe, gojq.OpLt, gojq.OpLe, gojq.OpGt, gojq.OpGe, gojq.OpAnd, gojq.OpOr, gojq.OpComma, gojq.OpPipe:
		if err := g.condition(q.Left, depth+1); err != nil {
			return err
		}
		return g.condition(q.Right, depth+1)
	}
	if q.Term == nil {
		return notAPath("the operator " + q.Op.String())
	}
	switch t := q.Term; {
	case t.Type == gojq.TermTypeQuery && len(t.SuffixList) == 0:
		return g.condition(t.Query, depth+1)
	case t.Type == gojq.TermTypeFunc && len(t.SuffixList) == 0:
		switch f := t.Func; {
		case f.Name == "not" && len(f.Args) == 0:
			return nil
		case test(f.Name) && len(f.Args) == 1:
			if v, ok := literal(f.Args[0]); ok {
				if _, text := v.(string); text {
					return nil
				}
			}
			return notAPath(f.Name + " of anything but a text")
		}
	}
	return g.pathTerm(q.Term, depth)
}

// test reports whether a function is one that conditions may ask of a value.
func test(name string) bool {
	return name == "has" || name == "startswith" || name == "endswith"
}

// literal is the plain value that an expression is.
func literal(q *gojq.Query) (any, bool) {
	if q.Term == nil || len(q.Term.SuffixList) > 0 || len(q.FuncDefs) > 0 {
		return nil, false
	}
	switch t := q.Term; t.Type {
	case gojq.TermTypeNull:
		return nil, true
	case gojq.TermTypeTrue:
		return true, true
	case gojq.TermTypeFalse:
		return false, true
	case gojq.TermTypeString:
		return t.Str.Str, t.Str.Queries == nil
	case gojq.TermTypeNumber:
		return number(t.Number)
	case gojq.TermTypeUnary:
		v, ok := literal(&gojq.Query{Term: t.Unary.Term})
		switch n := v.(type) {
		case int64:
			if t.Unary.Op == gojq.OpSub {
				return -n, ok
			}
			return n, ok
		case float64:
			if t.Unary.Op == gojq.OpSub {
				return -n, ok
			}
			return n, ok
		}
	}
	return nil, false
}

func number(text string) (any, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// excerpt is the beginning of a text.
func excerpt(s string) string { return text.Cut(s, 40) }
