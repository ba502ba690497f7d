package fieldpath

import (
	"fmt"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// condition evaluates what select() is given at a place. It may have several
// results.
func (e *jqEvaluation) condition(q *gojq.Query, at place) ([]any, error) {
	if err := e.take(1); err != nil {
		return nil, err
	}
	if v, ok := literal(q); ok {
		return []any{v}, nil
	}
	switch q.Op {
	case gojq.OpPipe:
		return e.pipe(q, at)
	case gojq.OpComma:
		left, err := e.condition(q.Left, at)
		if err != nil {
			return nil, err
		}
		right, err := e.condition(q.Right, at)
		return slices.Concat(left, right), err
	}
	if q.Term == nil {
		return e.operator(q, at)
	}
	switch t := q.Term; {
	case t.Type == gojq.TermTypeQuery && len(t.SuffixList) == 0:
		return e.condition(t.Query, at)
	case t.Type == gojq.TermTypeFunc && t.Func.Name != "select":
		return e.function(t.Func, at.value)
	}
	places, err := e.term(q.Term, []place{at})
	out := make([]any, 0, len(places))
	for _, p := range places {
		if list, start, end, ok := p.list(); ok && p.window != nil {
			out = append(out, list[start:end])
		} else {
			out = append(out, p.value)
		}
	}
	return out, err
}

// pipe hands the results of one side to the other.
func (e *jqEvaluation) pipe(q *gojq.Query, at place) ([]any, error) {
	left, err := e.condition(q.Left, at)
	if err != nil {
		return nil, err
	}
	var out []any
	for _, v := range left {
		found, err := e.condition(q.Right, place{value: v, path: at.path})
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func (e *jqEvaluation) operator(q *gojq.Query, at place) ([]any, error) {
	left, err := e.condition(q.Left, at)
	if err != nil {
		return nil, err
	}
	var out []any
	for _, l := range left {
		if q.Op == gojq.OpAnd && !truth(l) || q.Op == gojq.OpOr && truth(l) {
			out = append(out, truth(l))
			continue
		}
		right, err := e.condition(q.Right, at)
		if err != nil {
			return nil, err
		}
		if err := e.take(len(right)); err != nil {
			return nil, err
		}
		for _, r := range right {
			holds, err := e.combine(q.Op, l, r)
			if err != nil {
				return nil, err
			}
			out = append(out, holds)
		}
	}
	return out, nil
}

// combine applies an operator to two values.
func (e *jqEvaluation) combine(op gojq.Operator, l, r any) (bool, error) {
	if op == gojq.OpAnd || op == gojq.OpOr {
		return truth(r), nil
	}
	order, err := e.jqOrder(l, r)
	switch op {
	case gojq.OpEq:
		return order == 0, err
	case gojq.OpNe:
		return order != 0, err
	case gojq.OpLt:
		return order < 0, err
	case gojq.OpLe:
		return order <= 0, err
	case gojq.OpGt:
		return order > 0, err
	}
	return order >= 0, err
}

// function calls one of the functions that a condition may have.
func (e *jqEvaluation) function(f *gojq.Func, v any) ([]any, error) {
	if f.Name == "not" {
		return []any{!truth(v)}, nil
	}
	arg, _ := literal(f.Args[0])
	text := arg.(string)
	if f.Name == "has" {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s has no field %q to ask for", kindOf(v), text)
		}
		_, there := m[text]
		return []any{there}, nil
	}
	s, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("%s of %s: it has to be a text", f.Name, kindOf(v))
	}
	if f.Name == "startswith" {
		return []any{strings.HasPrefix(s, text)}, nil
	}
	return []any{strings.HasSuffix(s, text)}, nil
}

// truth is what jq takes for true.
func truth(v any) bool { return v != nil && v != false }
