package fieldpath

import (
	"context"
	"errors"
	"fmt"
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
