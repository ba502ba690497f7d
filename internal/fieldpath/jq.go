package fieldpath

import (
	"context"
	"errors"
	"strings"

	"github.com/itchyny/gojq"
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
