package fieldpath

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
)

const (
	// maxNesting is how deep the parentheses and conditions of a jq path may go.
	maxNesting = 20
	// maxTerms is how many terms a jq path may have in all.
	maxTerms = 200
)

// JQPath is a jq expression that is a path, ready to be evaluated: names,
// indices, ranges, .[], "?", pipes, commas, and select() with comparisons of
// paths and plain values, joined by and, or and not. It is safe for concurrent use.
type JQPath struct {
	text  string
	query *gojq.Query
}

// ParseJQ reads a jq path. Its error says what is wrong with an expression that
// can't be read, or that is more than a path.
func ParseJQ(path string) (*JQPath, error) {
	if err := tooLong(path); err != nil {
		return nil, err
	}
	if strings.TrimSpace(path) == "" {
		return nil, errEmpty
	}
	query, err := gojq.Parse(path)
	if err != nil {
		return nil, err
	}
	g := &grammar{}
	if err := g.path(query, 0); err != nil {
		return nil, err
	}
	return &JQPath{path, query}, nil
}

// Delete removes from an object what the path leads to, items of lists included.
// The object is changed in place as far as maps go; lists are replaced. What it
// costs is taken from the budget. Its error is ErrLimit when that is not enough,
// and the context's when that has ended; nothing is removed then.
func (p *JQPath) Delete(ctx context.Context, object map[string]any, budget *Budget) error {
	walk, err := begin(ctx, budget)
	if err != nil {
		return err
	}
	e := &jqEvaluation{walk}
	places, err := e.path(p.query, []place{{value: object}})
	if err != nil {
		return err
	}
	removed := &removal{}
	for _, at := range places {
		if at.path == nil {
			return errors.New("it leads to the whole object, so nothing would be left of it")
		}
		if err := e.take(at.weight()); err != nil {
			return err
		}
		removed.add(at)
	}
	removed.apply(object)
	return nil
}

// place is a value and its path in the object, the last step first.
type place struct {
	value any
	path  *step
	// window is the part of a list that the place is, if it is one.
	window *window
}

type step struct {
	before *step
	key    any // a string or an int
	depth  int // how many steps there are up to this one
}

type window struct{ start, end int }

func (p place) child(key, value any) place {
	s := &step{before: p.path, key: key, depth: 1}
	if p.path != nil {
		s.depth += p.path.depth
	}
	return place{value: value, path: s}
}

// weight is how many steps there are to a place and, if it is a part of a list,
// into that.
func (p place) weight() int {
	if p.window == nil {
		return p.path.depth
	}
	return p.path.depth + p.window.end - p.window.start
}

// list is the list that a place is, and where in it the place begins and ends.
func (p place) list() (list []any, start, end int, ok bool) {
	list, ok = p.value.([]any)
	if p.window != nil {
		return list, p.window.start, p.window.end, ok
	}
	return list, 0, len(list), ok
}

// removal is a tree of what to remove from a value.
type removal struct {
	// whole is that the value itself is removed.
	whole bool
	below map[any]*removal
}

// node is the part of the tree at a path, which it creates if need be.
func (r *removal) node(path *step) *removal {
	if path == nil {
		return r
	}
	parent := r.node(path.before)
	if parent.below == nil {
		parent.below = map[any]*removal{}
	}
	if parent.below[path.key] == nil {
		parent.below[path.key] = &removal{}
	}
	return parent.below[path.key]
}

func (r *removal) add(p place) {
	n := r.node(p.path)
	if p.window == nil {
		n.whole = true
		return
	}
	for i := p.window.start; i < p.window.end; i++ {
		n.node(&step{key: i}).whole = true
	}
}

// apply removes what the tree says and returns what is left.
func (r *removal) apply(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, below := range r.below {
			name, ok := key.(string)
			if !ok {
				continue
			}
			x, there := v[name]
			switch {
			case !there:
			case below.whole:
				delete(v, name)
			default:
				v[name] = below.apply(x)
			}
		}
	case []any:
		out := make([]any, 0, len(v))
		for i, x := range v {
			below := r.below[i]
			switch {
			case below == nil:
				out = append(out, x)
			case !below.whole:
				out = append(out, below.apply(x))
			}
		}
		return out
	}
	return v
}

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
