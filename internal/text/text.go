// Package text makes texts short enough for where they go: a field of the API with a
// limited length, or a message that a person reads. The lengths of the API's fields are
// in runtime/api/limits.
package text

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// ellipsis ends a text that was longer.
const ellipsis = "..."

// Cut returns s if it has at most max bytes. Otherwise it returns its beginning,
// which ends with three dots, in at most max bytes and without half a character.
func Cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	if max <= len(ellipsis) {
		return ellipsis[:max]
	}
	return strings.ToValidUTF8(s[:max-len(ellipsis)], "") + ellipsis
}

// Line returns s on one line, and without characters that a terminal would obey: what is
// not printable is a space. It is for what others write, such as the clusters' agents.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// List joins up to max items by commas, and says how many more there are:
// "a, b and 3 more".
func List(items []string, max int) string {
	if len(items) <= max {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:max], ", "), len(items)-max)
}

// First returns up to max items, and as the last one how many more there are:
// "and 3 more". It leaves items as they are.
func First(items []string, max int) []string {
	if len(items) <= max {
		return items
	}
	return append(slices.Clone(items[:max]), fmt.Sprintf("and %d more", len(items)-max))
}
