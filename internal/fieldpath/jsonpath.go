package fieldpath

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

const (
	// maxSteps is how many steps a JSONPath may have, those in its filters and
	// unions included.
	maxSteps = 100
	// maxDescents is how often a JSONPath may search all below a value ("..").
	maxDescents = 1
	// maxFilters is how deep filters may be nested.
	maxFilters = 2
)

// JSONPath is a JSONPath that is ready to be evaluated. It is safe for concurrent
// use.
type JSONPath struct{ steps []jsonpath.Node }

// ParseJSONPath reads a JSONPath in kubectl's dialect, with or without braces
// around it. Its error says what is wrong with a path that can't be read, or
// that would cost too much: with more than one "..", with range, or too long.
func ParseJSONPath(path string) (*JSONPath, error) {
	if err := tooLong(path); err != nil {
		return nil, err
	}
	text := strings.TrimSpace(path)
	if text == "" || text == "{}" {
		return nil, errEmpty
	}
	if !strings.HasPrefix(text, "{") {
		text = "{" + text + "}"
	}
	parsed, err := jsonpath.Parse("path", text)
	if err != nil {
		return nil, err
	}
	if len(parsed.Root.Nodes) != 1 {
		return nil, errors.New("it is more than one path: write one path to a value, such as .status.phase")
	}
	list, ok := parsed.Root.Nodes[0].(*jsonpath.ListNode)
	if !ok {
		return nil, errors.New("it is text and no path")
	}
	c := &pathSize{}
	if err := c.count(list.Nodes, 0); err != nil {
		return nil, err
	}
	return &JSONPath{list.Nodes}, nil
}

// pathSize counts the steps and the ".." of a path.
type pathSize struct{ steps, descents int }

func (c *pathSize) count(nodes []jsonpath.Node, filters int) error {
	for _, node := range nodes {
		if c.steps++; c.steps > maxSteps {
			return fmt.Errorf("it has more than %d steps", maxSteps)
		}
		var err error
		switch n := node.(type) {
		case *jsonpath.RecursiveNode:
			if c.descents++; c.descents > maxDescents {
				return errors.New("it has more than one \"..\": name the fields between them")
			}
		case *jsonpath.IdentifierNode:
			return fmt.Errorf("it has %q, which is not a path: name the fields, as in .items[0].name", n.Name)
		case *jsonpath.ListNode:
			err = c.count(n.Nodes, filters)
		case *jsonpath.UnionNode:
			for _, branch := range n.Nodes {
				if err = c.count(branch.Nodes, filters); err != nil {
					break
				}
			}
		case *jsonpath.FilterNode:
			if filters == maxFilters {
				return fmt.Errorf("it has filters within filters, more than %d deep", maxFilters)
			}
			if err = c.count(n.Left.Nodes, filters+1); err == nil {
				err = c.count(n.Right.Nodes, filters+1)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Find returns the values to which the path leads in an object as JSON decodes
// it. The values are the object's own, not copies. The fields of a map come in
// no particular order. A field that is missing yields no value and no error. What
// the path costs is taken from the budget. Its error is ErrLimit when that is not
// enough, and the context's when that has ended.
func (p *JSONPath) Find(ctx context.Context, object any, budget *Budget) ([]any, error) {
	walk, err := begin(ctx, budget)
	if err != nil {
		return nil, err
	}
	e := &jsonPathEvaluation{walk}
	return e.all(p.steps, []any{object})
}

// jsonPathEvaluation walks an object along a JSONPath.
type jsonPathEvaluation struct{ evaluation }

// all takes the steps one after the other.
func (e *jsonPathEvaluation) all(steps []jsonpath.Node, from []any) ([]any, error) {
	var err error
	for _, step := range steps {
		if err = e.take(len(from) + 1); err != nil {
			return nil, err
		}
		if from, err = e.step(step, from); err != nil {
			return nil, err
		}
	}
	return from, nil
}

func (e *jsonPathEvaluation) step(step jsonpath.Node, from []any) ([]any, error) {
	switch n := step.(type) {
	case *jsonpath.ListNode:
		return e.all(n.Nodes, from)
	case *jsonpath.TextNode:
		return []any{n.Text}, nil
	case *jsonpath.IntNode:
		return slices.Repeat([]any{int64(n.Value)}, len(from)), nil
	case *jsonpath.FloatNode:
		return slices.Repeat([]any{n.Value}, len(from)), nil
	case *jsonpath.BoolNode:
		return slices.Repeat([]any{n.Value}, len(from)), nil
	case *jsonpath.FieldNode:
		var out []any
		for _, v := range from {
			if m, ok := v.(map[string]any); ok {
				if below, ok := m[n.Value]; ok {
					out = append(out, below)
				}
			}
		}
		return out, nil
	case *jsonpath.WildcardNode:
		var out []any
		for _, v := range from {
			below := children(v)
			if err := e.take(len(below)); err != nil {
				return nil, err
			}
			out = append(out, below...)
		}
		return out, nil
	case *jsonpath.RecursiveNode:
		var out []any
		for _, v := range from {
			var err error
			if out, err = e.descend(v, out); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *jsonpath.UnionNode:
		var out []any
		for _, branch := range n.Nodes {
			found, err := e.all(branch.Nodes, from)
			if err != nil {
				return nil, err
			}
			if err := e.take(len(found)); err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
		return out, nil
	case *jsonpath.ArrayNode:
		return e.items(n, from)
	case *jsonpath.FilterNode:
		return e.filter(n, from)
	}
	return nil, fmt.Errorf("it has a step that is not supported: %s", step)
}

// children are the values in a value.
func children(v any) []any {
	switch v := v.(type) {
	case []any:
		return v
	case map[string]any:
		out := make([]any, 0, len(v))
		for _, x := range v {
			out = append(out, x)
		}
		return out
	}
	return nil
}

// descend adds a value and all values in it, except empty ones.
func (e *jsonPathEvaluation) descend(v any, out []any) ([]any, error) {
	inside := children(v)
	if text, ok := v.(string); len(inside) == 0 && (!ok || text == "") {
		return out, nil
	}
	if err := e.take(1 + len(inside)); err != nil {
		return nil, err
	}
	out = append(out, v)
	var err error
	for _, x := range inside {
		if out, err = e.descend(x, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// items selects items of lists by index, from the end where it is negative, or a
// range of them.
func (e *jsonPathEvaluation) items(n *jsonpath.ArrayNode, from []any) ([]any, error) {
	var out []any
	for _, v := range from {
		if v == nil {
			continue
		}
		list, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("%s is not array or slice", kindOf(v))
		}
		start, end, step := 0, len(list), 1
		if n.Params[0].Known {
			if start = n.Params[0].Value; start < 0 {
				start += len(list)
			}
		}
		if n.Params[1].Known {
			if end = n.Params[1].Value; end < 0 || end == 0 && n.Params[1].Derived {
				end += len(list)
			}
		}
		if start == end {
			return out, nil
		}
		switch {
		case start < 0 || start >= len(list):
			return nil, fmt.Errorf("array index out of bounds: index %d, length %d", start, len(list))
		case end < 0 || end > len(list):
			return nil, fmt.Errorf("array index out of bounds: index %d, length %d", end-1, len(list))
		case start > end:
			return nil, fmt.Errorf("starting index %d is greater than ending index %d", start, end)
		}
		if n.Params[2].Known {
			if step = n.Params[2].Value; step <= 0 {
				return nil, errors.New("step must be > 0")
			}
		}
		if err := e.take((end - start) / step); err != nil {
			return nil, err
		}
		for i := start; i < end; i += step {
			out = append(out, list[i])
		}
	}
	return out, nil
}

// filter keeps the items of lists for which a comparison holds.
func (e *jsonPathEvaluation) filter(n *jsonpath.FilterNode, from []any) ([]any, error) {
	var out []any
	for _, v := range from {
		list, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("%s is not array or slice and cannot be filtered", kindOf(v))
		}
		for _, item := range list {
			if err := e.take(1); err != nil {
				return nil, err
			}
			left, err := e.all(n.Left.Nodes, []any{item})
			if e.ended(err) {
				return nil, err
			}
			if n.Operator == "exists" {
				if len(left) > 0 {
					out = append(out, item)
				}
				continue
			}
			if err != nil {
				return nil, err
			}
			right, err := e.all(n.Right.Nodes, []any{item})
			if err != nil {
				return nil, err
			}
			switch {
			case len(left) == 0 || len(right) == 0:
				continue
			case len(left) > 1 || len(right) > 1:
				return nil, errors.New("can only compare one element at a time")
			}
			holds, err := e.compare(left[0], n.Operator, right[0])
			if err != nil {
				return nil, err
			}
			if holds {
				out = append(out, item)
			}
		}
	}
	return out, nil
}

// kindOf names the type of a value as JSON does.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	}
	return "a number"
}
