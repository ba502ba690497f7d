package docs

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// longestEntry is how many characters an entry of the changelog has at most.
const longestEntry = 160

// TestChangelog keeps the entries of the changelog short, and each under a heading:
// who has to know more looks into the documents.
func TestChangelog(t *testing.T) {
	headings := 0
	seen := map[string]bool{}
	for line := range strings.Lines(read(t, "CHANGELOG.md")) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "":
		case strings.HasPrefix(line, "#"):
			headings++
		case headings >= 2 && !strings.HasPrefix(line, "- "):
			t.Errorf("this line of CHANGELOG.md is not an entry (\"- …\"): %s", line)
		case utf8.RuneCountInString(line) > longestEntry:
			t.Errorf("this entry of CHANGELOG.md has more than %d characters: %s", longestEntry, line)
		case seen[line]:
			t.Errorf("this entry of CHANGELOG.md is there twice: %s", line)
		}
		seen[line] = line != ""
	}
	if headings < 4 {
		t.Errorf("CHANGELOG.md has %d headings", headings)
	}
}
