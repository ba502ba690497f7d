package docs

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// documents are all documents, by their path in the module. Those that docs/ is
// generated from are checked there, where their links lead from.
func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(name, ".") && name != "." && name != ".github"
		made := name == "templates" || name == "changelog" // what is made of them is looked at
		if entry.IsDir() && (hidden || made || name == "bin" || entry.Name() == ".terraform") {
			return filepath.SkipDir
		}
		if filepath.Ext(name) == ".md" {
			all = append(all, name)
		}
		return nil
	})
	if err != nil || len(all) < 10 {
		t.Fatalf("%d documents: %v", len(all), err)
	}
	return all
}

var (
	codeBlock  = regexp.MustCompile("(?s)(^|\n)```.*?\n```")
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	anchorTag  = regexp.MustCompile(`<a id="([^"]+)">`)
)

// TestLinks follows every link between documents, to its file and heading. Links
// out of the repository only have to be URLs.
func TestLinks(t *testing.T) {
	for _, name := range documents(t) {
		text := inlineCode.ReplaceAllString(codeBlock.ReplaceAllString(read(t, name), ""), "")
		for _, match := range linkTarget.FindAllStringSubmatch(text, -1) {
			checkLink(t, name, match[1])
		}
	}
}

func checkLink(t *testing.T, name, target string) {
	t.Helper()
	link, err := url.Parse(target)
	if err != nil || link.Scheme != "" && (link.Scheme != "https" || link.Host == "") {
		t.Errorf("%s: the link %s is not an https URL: %v", name, target, err)
		return
	}
	if link.Scheme != "" {
		return
	}
	leads := name
	if link.Path != "" {
		leads = filepath.Join(filepath.Dir(name), filepath.FromSlash(link.Path))
	}
	if _, err := os.Stat(filepath.Join(root, leads)); err != nil {
		t.Errorf("%s: the link %s leads nowhere: %v", name, target, err)
		return
	}
	if link.Fragment != "" && !anchors(read(t, leads))[link.Fragment] {
		t.Errorf("%s: the link %s leads to no heading of %s", name, target, leads)
	}
}

// anchors are those that GitHub and the Terraform registry make of headings.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		all[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, match[1])] = true
	}
	for _, match := range anchorTag.FindAllStringSubmatch(text, -1) {
		all[match[1]] = true
	}
	return all
}

// named is a file or folder of the tree, in backquotes.
var named = regexp.MustCompile("`((?:docs|examples|hack|internal|provider|runtime|templates|tests)/[A-Za-z0-9_./-]+)`")

// TestPaths looks for every file and folder that the documents for contributors
// name.
func TestPaths(t *testing.T) {
	for _, name := range []string{
		"ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md",
		"docs/compatibility.md", "docs/performance.md", "docs/security.md",
	} {
		for _, match := range named.FindAllStringSubmatch(read(t, name), -1) {
			if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
				t.Errorf("%s names %s, which is not there", name, match[1])
			}
		}
	}
}

// TestReadmeListsTheGuides: a newcomer finds every guide from the README.
func TestReadmeListsTheGuides(t *testing.T) {
	guides, err := filepath.Glob(filepath.Join(root, "docs", "guides", "*.md"))
	if err != nil || len(guides) < 10 {
		t.Fatalf("%d guides: %v", len(guides), err)
	}
	readme := read(t, "README.md")
	for _, guide := range guides {
		if link := "](docs/guides/" + filepath.Base(guide) + ")"; !strings.Contains(readme, link) {
			t.Errorf("README.md has no link to docs/guides/%s", filepath.Base(guide))
		}
	}
}
