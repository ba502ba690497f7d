package fieldpath

import (
	"fmt"
	"slices"

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
