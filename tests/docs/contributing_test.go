package docs

import (
	"strings"
	"testing"
)

// TestWhereDoIChange looks up the answers of the table in CONTRIBUTING.md: each is a
// file that holds what to look for.
func TestWhereDoIChange(t *testing.T) {
	_, text, _ := strings.Cut(read(t, "CONTRIBUTING.md"), "\n## Where do I change …?\n")
	text, _, _ = strings.Cut(text, "\n## ")
	answers := 0
	for row := range strings.Lines(text) {
		cells := strings.Split(row, "|")
		if len(cells) != 5 || !strings.Contains(cells[2], "`") {
			continue
		}
		answers++
		file, lookFor := quoted(cells[2])[0], quoted(cells[3])[0]
		if !strings.Contains(read(t, file), lookFor) {
			t.Errorf("%s has no %q: correct the answer in CONTRIBUTING.md to where one changes%s", file, lookFor, cells[1])
		}
	}
	if answers < 5 {
		t.Errorf("CONTRIBUTING.md has %d answers", answers)
	}
}
