// Package corekind checks objects of Kubernetes' own kinds without asking a server:
// fields that do not exist, values of the wrong type, names that can't be valid,
// and a few things that every API server refuses. It knows nothing of other kinds,
// and what it is silent about may still be refused.
package corekind

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Release is the Kubernetes release whose kinds and fields are known here.
const Release = "1.37"

// Problem is what is wrong with an object.
type Problem struct {
	// Path is that of the field, such as spec.replicas; empty for the object.
	Path string
	// Text says what is wrong, and what would be right. It quotes no values but
	// names.
	Text string
	// Unknown says that a later release of Kubernetes may know the field or kind.
	// Servers drop such a field; everything else is refused by all of them.
	Unknown bool
}

// String is the problem as a sentence without its full stop.
func (p Problem) String() string {
	if p.Path == "" {
		return p.Text
	}
	return p.Path + " " + p.Text
}

// Check lists what is wrong with an object in JSON's terms: maps with text keys,
// lists, texts, truth values, and numbers as json.Number. It lists the problems in
// the order of their paths. Objects of kinds that are not Kubernetes' own have none.
func Check(object map[string]any) []Problem {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	known := kindsOf(apiVersion)
	if known == nil {
		if better, removed := replacedBy(apiVersion, kind); removed {
			return []Problem{{Path: "apiVersion", Text: fmt.Sprintf("is %s, which no supported release of Kubernetes has for the kind %s: use %s", apiVersion, kind, better)}}
		}
		return nil
	}
	sample, found := known[kind]
	if !found {
		return []Problem{{Path: "kind", Text: unknownKind(apiVersion, kind, known), Unknown: true}}
	}
	d := &decoder{}
	d.decode("", object, sample)
	problems := d.problems
	if !slices.ContainsFunc(problems, func(p Problem) bool { return !p.Unknown }) {
		problems = append(problems, required(kind, object)...)
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) })
	return problems
}

func unknownKind(apiVersion, kind string, known map[string]any) string {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	text := fmt.Sprintf("is %s, which %s of Kubernetes %s does not have", kind, apiVersion, Release)
	if near := nearest(kind, names); near != "" {
		return text + fmt.Sprintf("; did you mean %s?", near)
	}
	for _, other := range groups() {
		for name := range kindsOf(other) {
			if strings.EqualFold(name, kind) {
				return text + fmt.Sprintf("; did you mean %s of %s?", name, other)
			}
		}
	}
	return text
}

// nearest is the name that somebody may have meant, or "".
func nearest(name string, names []string) string {
	best, bestDistance := "", 3
	for _, candidate := range slices.Sorted(slices.Values(names)) {
		distance := editDistance(strings.ToLower(name), strings.ToLower(candidate))
		if distance < bestDistance && distance*2 < len(name) {
			best, bestDistance = candidate, distance
		}
	}
	return best
}

// editDistance is how many letters have to be added, removed, replaced, or swapped
// with the next, to make one text of the other.
func editDistance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			substitute := last[j]
			if a[i] != b[j] {
				substitute++
			}
			next[j+1] = min(last[j+1]+1, next[j]+1, substitute)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last = last, next
	}
	return last[len(b)]
}
