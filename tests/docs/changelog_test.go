package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

const (
	// longestEntry is how many characters an entry of the changelog has at most.
	longestEntry = 160
	// fragments is the folder of the changelog's entries: a folder for each release, in it one
	// for each section, and there a file for each change.
	fragments = "../../changelog"
	// unreleased is the folder of the changes that no release has.
	unreleased = "unreleased"

	changelogBegins = "# Changelog\n\nWhat users notice, newest first, one line each. The project follows " +
		"[semantic versioning](https://semver.org).\n"
)

// sections are the folders of a release, with their headings, in the order of the changelog.
var sections = []struct{ folder, heading string }{
	{"added", "### Added"}, {"added/hub", "#### Hub"}, {"added/registration", "#### Registration"},
	{"added/cluster-imports", "#### Cluster imports"}, {"added/agent", "#### Agent"},
	{
		"added/placements",
		"#### Placements",
	}, {"added/works", "#### Works and rollouts"}, {"added/add-ons", "#### Add-ons"},
	{"added/user-access", "#### User access"}, {"added/provider", "#### Provider"},
	{"added/commands", "#### Commands, modules and guides"},
	{"security", "### Security"},
	{"changed", "### Changed"}, {"changed/hub-and-agent", "#### Hub and agent"}, {"changed/provider", "#### Provider"},
	{"fixed", "### Fixed"}, {"fixed/hub-and-agent", "#### Hub and agent"}, {"fixed/provider", "#### Provider"},
}

// TestChangelog keeps CHANGELOG.md what the files in changelog make, and their entries
// short: who has to know more looks into the documents. With -update it writes CHANGELOG.md.
func TestChangelog(t *testing.T) {
	releases, err := os.ReadDir(fragments)
	testkit.Must(t, err)
	slices.SortFunc(releases, func(a, b os.DirEntry) int { return newer(t, b.Name(), a.Name()) })
	want, seen := changelogBegins, map[string]bool{}
	for _, r := range releases {
		heading := r.Name()
		if heading == unreleased {
			heading = "Unreleased"
		}
		want += "\n## " + heading + "\n" + changesOf(t, filepath.Join(fragments, r.Name()), seen)
	}
	if len(seen) == 0 {
		t.Fatal("there are no entries")
	}
	if *update {
		testkit.Must(t, os.WriteFile("../../CHANGELOG.md", []byte(want), 0o644)) //nolint:gosec // a document
		return
	}
	if read(t, "CHANGELOG.md") != want {
		t.Error("CHANGELOG.md is not what the files in changelog make: write entries there, and run make generate")
	}
}

// newer compares releases by their names: what is not released is newer than all.
func newer(t *testing.T, a, b string) int {
	t.Helper()
	if a == unreleased || b == unreleased {
		return strings.Compare(map[bool]string{true: "1"}[a == unreleased], map[bool]string{true: "1"}[b == unreleased])
	}
	v, err := version.ParseSemantic(a)
	testkit.Must(t, err)
	order, err := v.Compare(b)
	testkit.Must(t, err)
	return order
}

// changesOf is the part of the changelog that a folder makes.
func changesOf(t *testing.T, dir string, seen map[string]bool) string {
	t.Helper()
	entries := map[string][]string{}
	testkit.Must(t, filepath.WalkDir(dir, func(path string, file os.DirEntry, err error) error {
		if err != nil || file.IsDir() {
			return err
		}
		section, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		entries[filepath.ToSlash(section)] = append(
			entries[filepath.ToSlash(section)],
			checked(t, path, string(content), seen)...)
		return nil
	}))
	var out strings.Builder
	for i, s := range sections {
		within := slices.ContainsFunc(sections[i:], func(x struct{ folder, heading string }) bool {
			return (x.folder == s.folder || strings.HasPrefix(x.folder, s.folder+"/")) && len(entries[x.folder]) > 0
		})
		if !within {
			continue
		}
		out.WriteString("\n" + s.heading + "\n" + strings.Join(entries[s.folder], ""))
		delete(entries, s.folder)
	}
	for section := range entries {
		t.Errorf(
			"%s has the folder %s, which is no section: use one of those in tests/docs/changelog_test.go",
			dir,
			section,
		)
	}
	return out.String()
}

// checked are the lines of a file, each of which is an entry.
func checked(t *testing.T, path, content string, seen map[string]bool) (lines []string) {
	t.Helper()
	for line := range strings.Lines(content) {
		switch {
		case !strings.HasPrefix(line, "- ") || !strings.HasSuffix(line, "\n"):
			t.Errorf("this line of %s is not an entry (\"- …\"): %s", path, line)
		case utf8.RuneCountInString(line) > longestEntry+1:
			t.Errorf("this entry of %s has more than %d characters: %s", path, longestEntry, line)
		case seen[line]:
			t.Errorf("this entry of %s is there twice: %s", path, line)
		}
		seen[line] = true
		lines = append(lines, line)
	}
	return lines
}
