package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// A tree is JSON as unstructured objects hold it, except that a text with placeholders
// is a text, and an object that has them in names of fields is a patterned.

// patterned is an object with placeholders in names of fields.
type patterned struct {
	fields map[string]any
	named  []namedField
}

type namedField struct {
	name  text
	value any
}

// parseTree reads JSON.
func parseTree(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var read any
	if err := d.Decode(&read); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("is more than one JSON value: make a manifest of each")
	}
	return compile(read, "")
}

// compile makes a tree of JSON. at is where it stands, for messages.
func compile(read any, at string) (any, error) {
	switch x := read.(type) {
	case map[string]any:
		return compileObject(x, at)
	case []any:
		for i := range x {
			item, err := compile(x[i], at+"["+strconv.Itoa(i)+"]")
			if err != nil {
				return nil, err
			}
			x[i] = item
		}
	case string:
		if strings.Contains(x, opening) {
			t, err := parseText(x)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", place(at), err)
			}
			return t, nil
		}
	case json.Number:
		return number(x), nil
	}
	return read, nil
}

func compileObject(x map[string]any, at string) (any, error) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(x)) {
		compiled, err := compile(x[name], at+"."+name)
		if err != nil {
			return nil, err
		}
		x[name] = compiled
		if strings.Contains(name, opening) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return x, nil
	}
	p := patterned{fields: x}
	for _, name := range names {
		t, err := parseText(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", place(at), err)
		}
		p.named = append(p.named, namedField{t, x[name]})
		delete(x, name)
	}
	return p, nil
}

func place(at string) string { return strings.TrimPrefix(at, ".") }

// number is a number as unstructured objects hold it. One that would lose something
// that way stays as it is written.
func number(n json.Number) any {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i
	}
	f, err := n.Float64()
	if err != nil {
		return n
	}
	// The exponent is checked first: a rational number with a large one is huge.
	if _, exponent, found := strings.Cut(strings.ToLower(n.String()), "e"); found && len(exponent) > len("+999") {
		return n
	}
	written, ok := new(big.Rat).SetString(n.String())
	held, ok2 := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	if ok && ok2 && written.Cmp(held) == 0 {
		return f
	}
	return n
}

// expand is a tree with values for its placeholders. Nothing of it is shared with the
// tree.
func expand(tree any, v values) (any, error) {
	switch x := tree.(type) {
	case map[string]any:
		return expandFields(x, v, len(x))
	case []any:
		out := make([]any, len(x))
		for i := range x {
			item, err := expand(x[i], v)
			if err != nil {
				return nil, err
			}
			out[i] = item
		}
		return out, nil
	case text:
		return x.in(v), nil
	case patterned:
		out, err := expandFields(x.fields, v, len(x.fields)+len(x.named))
		if err != nil {
			return nil, err
		}
		for _, f := range x.named {
			name := f.name.in(v)
			if _, twice := out[name]; twice {
				return nil, fmt.Errorf("two fields get the name %s by their placeholders: give them different names", quoted(name))
			}
			if out[name], err = expand(f.value, v); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return tree, nil
}

func expandFields(fields map[string]any, v values, size int) (map[string]any, error) {
	out := make(map[string]any, size)
	for name, value := range fields {
		expanded, err := expand(value, v)
		if err != nil {
			return nil, firstProblem(fields, v)
		}
		out[name] = expanded
	}
	return out, nil
}

// firstProblem is the problem of the first of several fields, so that the same input
// gives the same problem.
func firstProblem(fields map[string]any, v values) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if _, err := expand(fields[name], v); err != nil {
			return err
		}
	}
	return nil
}

// countPlaceholders adds how often each placeholder stands in a tree.
func countPlaceholders(tree any, counts map[string]int) {
	switch x := tree.(type) {
	case map[string]any:
		for _, value := range x {
			countPlaceholders(value, counts)
		}
	case []any:
		for _, item := range x {
			countPlaceholders(item, counts)
		}
	case text:
		for _, p := range x.rest {
			counts[p.name]++
		}
	case patterned:
		countPlaceholders(x.fields, counts)
		for _, f := range x.named {
			countPlaceholders(f.name, counts)
			countPlaceholders(f.value, counts)
		}
	}
}
