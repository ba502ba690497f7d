package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// release is the version that examples and guides name: of the modules by their
// sources, and of the provider by its constraint. Change it with a release, and run
// make generate.
const release = "0.1.0"

var (
	moduleSource = regexp.MustCompile(`(terraform-provider-muster//examples/modules/[a-z-]+)(\?ref=[^"]*)?"`)
	constraint   = regexp.MustCompile(`(source\s*=\s*"muster-fleet/muster"(?:,|\n\s*) *version *= *"[~>=]+ )([0-9.]+)"`)
	provider     = regexp.MustCompile(`source\s*=\s*"muster-fleet/muster"`)
)

// TestRelease compares the versions in examples, templates and README with the release.
func TestRelease(t *testing.T) {
	var files []string
	for _, folder := range []string{"examples", "templates"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && entry.Name() == ".terraform" {
				return filepath.SkipDir
			}
			if slices.Contains([]string{".tf", ".md", ".tmpl", ".hcl"}, filepath.Ext(path)) {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	minor := regexp.MustCompile(`^\d+\.\d+`).FindString(release)
	for _, path := range append(files, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		was := string(text)
		wanted := moduleSource.ReplaceAllString(was, "${1}?ref=v"+release+`"`)
		wanted = constraint.ReplaceAllString(wanted, "${1}"+minor+`"`)
		if len(provider.FindAllString(was, -1)) != len(constraint.FindAllString(was, -1)) {
			t.Errorf("%s has a provider without a version: version = \"~> %s\"", path, minor)
		}
		if wanted == was {
			continue
		}
		if !*update {
			t.Errorf("%s names another release than %s: run make generate", path, release)
			continue
		}
		if err := os.WriteFile(path, []byte(wanted), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
