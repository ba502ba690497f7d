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

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
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
	// Typed says that the field takes values of another type, whatever this one says.
	Typed bool
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
	if near := suggest.Name(kind, names); near != "" {
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
