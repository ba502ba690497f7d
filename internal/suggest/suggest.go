// Package suggest finds what somebody may have meant by a name that is not known. It
// knows nothing of what is named, and imports nothing of the project.
package suggest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

const (
	// mostNames is how many names are suggested at most.
	mostNames = 3
	// mostEdits is by how many letters a name may differ at most, however long it is.
	mostEdits = 3
)

// Name returns the name that differs from the given one by the fewest letters, in
// whatever case; empty if none is near. Names of 1 or 2 letters are like no other.
func Name(given string, names []string) string {
	best, fewest := "", maxEdits(given)+1
	for _, name := range slices.Sorted(slices.Values(names)) {
		if edits := distance(given, name); edits < fewest {
			best, fewest = name, edits
		}
	}
	return best
}

// Names returns up to three names that may be meant, the nearest first: those that
// differ by few letters, and those that contain the given one.
func Names(given string, names []string) []string {
	type candidate struct {
		name  string
		edits int
	}
	var near []candidate
	for _, name := range names {
		edits := distance(given, name)
		contained := given != "" && strings.Contains(strings.ToLower(name), strings.ToLower(given))
		if edits <= maxEdits(given) || contained {
			near = append(near, candidate{name, edits})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int { return cmp.Or(a.edits-b.edits, strings.Compare(a.name, b.name)) })
	var best []string
	for _, c := range slices.CompactFunc(near, func(a, b candidate) bool { return a.name == b.name }) {
		best = append(best, c.name)
	}
	return best[:min(len(best), mostNames)]
}

// maxEdits is by how many letters another name may differ: by fewer than half of them.
func maxEdits(given string) int {
	return max(0, min(mostEdits, (len(given)-1)/2))
}

// distance is how many letters have to be added, removed or replaced.
func distance(a, b string) int {
	return levenshtein.Distance(strings.ToLower(a), strings.ToLower(b), nil)
}
