package fieldpath

import (
	"fmt"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// jqEvaluation walks an object along a path that the grammar has let through.
type jqEvaluation struct{ evaluation }

func (e *jqEvaluation) path(q *gojq.Query, from []place) ([]place, error) {
	if err := e.take(len(from) + 1); err != nil {
		return nil, err
	}
	if q.Term != nil {
		return e.term(q.Term, from)
	}
	left, err := e.path(q.Left, from)
	if err != nil {
		return nil, err
	}
	if q.Op == gojq.OpPipe {
		return e.path(q.Right, left)
	}
	right, err := e.path(q.Right, from)
	if err != nil {
		return nil, err
	}
	return slices.Concat(left, right), nil
}

func (e *jqEvaluation) term(t *gojq.Term, from []place) ([]place, error) {
	n := len(t.SuffixList)
	if n == 0 {
		return e.head(t, from)
	}
	rest, last := *t, t.SuffixList[n-1]
	rest.SuffixList = t.SuffixList[:n-1]
	if last.Optional {
		return e.optional(&rest, from)
	}
	from, err := e.term(&rest, from)
	if err != nil {
		return nil, err
	}
	return e.suffix(last, from)
}

func (e *jqEvaluation) suffix(s *gojq.Suffix, from []place) ([]place, error) {
	if s.Index != nil {
		return e.index(s.Index, from)
	}
	return e.items(from)
}

// optional is a term with "?" behind it: what goes wrong at a place is not an error,
// and leaves out that place only. The "?" is about the last step.
func (e *jqEvaluation) optional(t *gojq.Term, from []place) ([]place, error) {
	attempt := func(p []place) ([]place, error) { return e.term(t, p) }
	if n := len(t.SuffixList); n > 0 && !t.SuffixList[n-1].Optional {
		before, last := *t, t.SuffixList[n-1]
		before.SuffixList = t.SuffixList[:n-1]
		var err error
		if from, err = e.term(&before, from); err != nil {
			return nil, err
		}
		attempt = func(p []place) ([]place, error) { return e.suffix(last, p) }
	}
	var out []place
	for _, p := range from {
		found, err := attempt([]place{p})
		if e.ended(err) {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, e.take(len(from))
}

// head evaluates a term without its suffixes.
func (e *jqEvaluation) head(t *gojq.Term, from []place) ([]place, error) {
	switch t.Type {
	case gojq.TermTypeIdentity:
		return from, e.take(len(from))
	case gojq.TermTypeIndex:
		return e.index(t.Index, from)
	case gojq.TermTypeQuery:
		return e.path(t.Query, from)
	}
	var out []place // select
	for _, p := range from {
		results, err := e.condition(t.Func.Args[0], p)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(results, truth) {
			out = append(out, p)
		}
	}
	return out, nil
}

// items are the values in lists and maps.
func (e *jqEvaluation) items(from []place) ([]place, error) {
	var out []place
	for _, p := range from {
		if list, start, end, ok := p.list(); ok {
			if err := e.take(end - start); err != nil {
				return nil, err
			}
			for i := start; i < end; i++ {
				out = append(out, p.child(i, list[i]))
			}
			continue
		}
		m, ok := p.value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("cannot iterate over %s", kindOf(p.value))
		}
		if err := e.take(len(m)); err != nil {
			return nil, err
		}
		for k, v := range m {
			out = append(out, p.child(k, v))
		}
	}
	return out, nil
}

func (e *jqEvaluation) index(i *gojq.Index, from []place) ([]place, error) {
	if err := e.take(len(from)); err != nil {
		return nil, err
	}
	var out []place
	for _, p := range from {
		at, err := indexPlace(i, p)
		if err != nil {
			return nil, err
		}
		out = append(out, at)
	}
	return out, nil
}

// indexPlace is where an index leads from a place. There may be nothing.
func indexPlace(i *gojq.Index, p place) (place, error) {
	if i.IsSlice {
		return slicePlace(i, p)
	}
	var key any = i.Name
	if i.Str != nil {
		key = i.Str.Str
	} else if i.Name == "" {
		key, _ = literal(i.Start)
	}
	if name, ok := key.(string); ok {
		switch v := p.value.(type) {
		case nil:
			return p.child(name, nil), nil
		case map[string]any:
			return p.child(name, v[name]), nil
		}
		return place{}, fmt.Errorf("%s has no field %q", kindOf(p.value), name)
	}
	n := key.(int64)
	if p.value == nil {
		return p.child(int(n), nil), nil
	}
	list, start, end, ok := p.list()
	if !ok {
		return place{}, fmt.Errorf("%s has no item %d", kindOf(p.value), n)
	}
	if n < 0 {
		n += int64(end - start)
	}
	if n < 0 || n >= int64(end-start) {
		return p.child(-1, nil), nil // there is no such item
	}
	return p.child(start+int(n), list[start+int(n)]), nil
}

func slicePlace(i *gojq.Index, p place) (place, error) {
	if p.value == nil {
		return place{path: p.path, window: &window{}}, nil
	}
	_, start, end, ok := p.list()
	if !ok {
		return place{}, fmt.Errorf("%s has no range of items", kindOf(p.value))
	}
	bound := func(q *gojq.Query, otherwise int) int {
		if q == nil {
			return otherwise
		}
		v, _ := literal(q)
		n := v.(int64)
		if n < 0 {
			n += int64(end - start)
		}
		return start + int(min(max(n, 0), int64(end-start)))
	}
	from, to := bound(i.Start, start), bound(i.End, end)
	return place{value: p.value, path: p.path, window: &window{from, max(from, to)}}, nil
}

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
