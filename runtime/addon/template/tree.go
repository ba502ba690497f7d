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
	name  markedText
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
	compiled, err := compile(read)
	if err != nil {
		return nil, err
	}
	return compiled, nil
}

// misplaced is a problem with a text. at are the steps to where it stands, the last one
// first: put together only where there is a problem, as each of a million texts may stand
// behind the name of a long field.
type misplaced struct {
	at  []string
	err error
}

func (m *misplaced) Error() string {
	var b strings.Builder
	for _, step := range slices.Backward(m.at) {
		b.WriteString(step)
	}
	return fmt.Sprintf("%s: %v", excerpt(strings.TrimPrefix(b.String(), ".")), m.err)
}

func (m *misplaced) Unwrap() error { return m.err }

// in adds the step that leads to where the problem stands.
func (m *misplaced) in(step string) *misplaced {
	m.at = append(m.at, step)
	return m
}

// compile makes a tree of JSON.
func compile(read any) (any, *misplaced) {
	switch x := read.(type) {
	case map[string]any:
		return compileObject(x)
	case []any:
		for i := range x {
			item, err := compile(x[i])
			if err != nil {
				return nil, err.in("[" + strconv.Itoa(i) + "]")
			}
			x[i] = item
		}
	case string:
		if strings.Contains(x, opening) {
			t, err := parseText(x)
			if err != nil {
				return nil, &misplaced{err: err}
			}
			return t, nil
		}
	case json.Number:
		return number(x), nil
	}
	return read, nil
}

func compileObject(x map[string]any) (any, *misplaced) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(x)) {
		compiled, err := compile(x[name])
		if err != nil {
			return nil, err.in("." + name)
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
			return nil, &misplaced{err: err}
		}
		p.named = append(p.named, namedField{t, x[name]})
		delete(x, name)
	}
	return p, nil
}

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
	case markedText:
		return x.filled(v), nil
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
	var problem error
	first := "" // the field with the problem, of several the first one by name
	for name, value := range fields {
		expanded, err := expand(value, v)
		if err != nil && (problem == nil || name < first) {
			problem, first = err, name
		}
		out[name] = expanded
	}
	if problem != nil {
		return nil, problem
	}
	return out, nil
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
	case markedText:
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
