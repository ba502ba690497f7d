package docs

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is generated: the table of packages and the tables of modules")

// parts are the tables of packages, by the folders that they show. The most
// specific folder counts.
var parts = []struct {
	title   string
	folders []string
}{
	{"The wire", []string{"runtime/api"}},
	{"What hub, agent and provider share", []string{"runtime", "internal"}},
	{"The hub", []string{"runtime/hub"}},
	{"The control plane", []string{"runtime/controlplane"}},
	{"The agent", []string{"runtime/agent"}},
	{"The provider", []string{"main.go", "provider"}},
	{"Commands, and fleets on one machine", []string{"runtime/cmd", "runtime/devcluster", "runtime/fleet"}},
	{"Tests and tools", []string{"hubtest", "internal/testkit", "tests", "examples", "hack"}},
}

// TestPackages compares the tables in PACKAGES.md with the package comments and
// imports.
func TestPackages(t *testing.T) {
	document := read(t, "PACKAGES.md")
	introduction, _, _ := strings.Cut(document, "\n## ")
	wanted := introduction + tables(t)
	if wanted == document {
		return
	}
	if !*update {
		t.Fatal("PACKAGES.md does not have the packages of the tree: run make generate")
	}
	if err := os.WriteFile(filepath.Join(root, "PACKAGES.md"), []byte(wanted), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tables are all packages, by part.
func tables(t *testing.T) string {
	rows := make([][]string, len(parts))
	for _, p := range packages(t) {
		at, longest := -1, ""
		for i, part := range parts {
			for _, folder := range part.folders {
				if within(short(p.ImportPath), folder) && len(folder) > len(longest) {
					at, longest = i, folder
				}
			}
		}
		if at < 0 {
			t.Errorf("%s belongs to no table: add its folder to parts in tests/docs", p.ImportPath)
			continue
		}
		rows[at] = append(rows[at], fmt.Sprintf("| `%s` | %s | %s |\n", short(p.ImportPath), summary(t, p), imports(p)))
	}
	var b strings.Builder
	for i, part := range parts {
		fmt.Fprintf(&b, "\n## %s\n\n| package | what it does | imports |\n|---|---|---|\n%s",
			part.title, strings.Join(rows[i], ""))
	}
	return b.String()
}

// summary is the first sentence of the package comment, without the name.
func summary(t *testing.T, p goPackage) string {
	sentence := p.Doc
	for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		if sentence != "" {
			break
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		sentence = new(doc.Package).Synopsis(comment(parsed.Doc))
	}
	if sentence == "" {
		t.Errorf("%s has no package comment", p.ImportPath)
	}
	sentence = regexp.MustCompile(`^(Package|Command) \S+ `).ReplaceAllString(sentence, "")
	return strings.ReplaceAll(strings.TrimSuffix(sentence, "."), "|", `\|`)
}

func comment(group *ast.CommentGroup) string {
	if group == nil {
		return ""
	}
	return group.Text()
}

// imports are the packages of the module that a package imports outside of its
// tests. The wire's count as one.
func imports(p goPackage) string {
	var paths []string
	own := false
	for _, path := range p.Imports {
		switch {
		case !within(path, module):
		case within(path, p.ImportPath):
			own = true
		case within(short(path), "runtime/api"):
			paths = append(paths, "`runtime/api`")
		default:
			paths = append(paths, "`"+short(path)+"`")
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	if own {
		paths = append(paths, "its own folders")
	}
	return strings.Join(paths, ", ")
}

// TestImports holds the packages to the rules in ARCHITECTURE.md's table "What may
// not be imported", whatever the way.
func TestImports(t *testing.T) {
	_, text, found := strings.Cut(read(t, "ARCHITECTURE.md"), "\n## What may not be imported\n")
	text, _, _ = strings.Cut(text, "\n## ")
	rules, all := 0, packages(t)
	for row := range strings.Lines(text) {
		cells := strings.Split(row, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		rules++
		held, excepted, _ := strings.Cut(cells[1], " except ")
		for _, p := range all {
			lies := func(folder string) bool { return within(short(p.ImportPath), folder) }
			if !slices.ContainsFunc(quoted(held), lies) || slices.ContainsFunc(quoted(excepted), lies) {
				continue
			}
			refused, allowed, _ := strings.Cut(cells[2], " except ")
			for _, dependency := range p.Deps {
				lies := func(folder string) bool { return within(short(dependency), folder) }
				if slices.ContainsFunc(quoted(refused), lies) && !slices.ContainsFunc(quoted(allowed), lies) {
					t.Errorf("%s depends on %s", p.ImportPath, dependency)
				}
			}
		}
	}
	if !found || rules == 0 {
		t.Error("ARCHITECTURE.md has no rules about imports")
	}
}
