package fieldpath

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/util/jsonpath"
)

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
