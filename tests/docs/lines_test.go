package docs

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// columns is how long a line of Go may be, where a tab counts as four.
	columns = 120
	// longLines lists the files that are older than this limit, and how many longer
	// lines each may have.
	longLines = "testdata/long_lines.txt"
)

// TestLineLength holds Go files to the limit. The list of older files only gets
// shorter: make generate takes out of it what has been wrapped.
func TestLineLength(t *testing.T) {
	allowed, err := readLongLines()
	first := errors.Is(err, fs.ErrNotExist)
	if err != nil && !first {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, name := range goFiles(t) {
		if n := countLongLines(read(t, name)); n > 0 {
			found[name] = n
		}
	}
	for name, n := range found {
		if n > allowed[name] && !first {
			t.Errorf("%s has %d lines of more than %d columns, and may have %d: wrap what you have changed "+
				"(for a file that was renamed, rename it in tests/docs/%s, too)", name, n, columns, allowed[name], longLines)
		}
	}
	if !*update || t.Failed() {
		return
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&b, "%d %s\n", found[name], name)
	}
	if err := os.WriteFile(longLines, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// readLongLines reads the list: a number and a path on each line.
func readLongLines() (map[string]int, error) {
	text, err := os.ReadFile(longLines)
	if err != nil {
		return nil, err
	}
	allowed := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var n int
		var name string
		if _, err := fmt.Sscan(line, &n, &name); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", longLines, line, err)
		}
		allowed[name] = n
	}
	return allowed, nil
}

// goFiles are the tree's Go files that people write.
func goFiles(t *testing.T) (names []string) {
	t.Helper()
	command := exec.Command("git", "ls-files", "*.go")
	command.Dir, command.Stderr = root, os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		_, err := os.Stat(filepath.Join(root, name))
		if err == nil && !strings.HasPrefix(read(t, name), "// Code generated") {
			names = append(names, name)
		}
	}
	return names
}

func countLongLines(text string) (n int) {
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if utf8.RuneCountInString(lines.Text())+3*strings.Count(lines.Text(), "\t") > columns {
			n++
		}
	}
	return n
}
