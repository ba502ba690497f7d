package examples_test

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// published is where users take modules from. In a test they are those of the tree.
const published = "github.com/muster-fleet/terraform-provider-muster//examples/"

// publishedSource is the address of a module of a release.
var publishedSource = regexp.MustCompile(regexp.QuoteMeta(published) + `([a-z/-]+)\?ref=[^"]*"`)

// examples is a copy of all examples that Terraform can run in, and the folders in it
// that hold a configuration.
type examples struct {
	root    string
	folders []string
	// minor is the version 1.minor of the test's Terraform.
	minor int
}

// copyExamples makes the copy. Snippets of the reference, which name no provider
// because their page does, get that part.
func copyExamples(t *testing.T) examples {
	t.Helper()
	e := examples{root: t.TempDir(), minor: terraformVersion(t)}
	if err := os.CopyFS(e.root, os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(e.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if entry.Name() == ".terraform" {
			return filepath.SkipDir
		}
		folder, err := filepath.Rel(e.root, path)
		if err != nil {
			return err
		}
		if text := e.prepare(t, folder); text != "" {
			e.folders = append(e.folders, folder)
		}
		return nil
	})
	if err != nil || len(e.folders) < 20 {
		t.Fatalf("%d folders with examples: %v", len(e.folders), err)
	}
	return e
}

// prepare makes a folder complete, and returns its configuration.
func (e examples) prepare(t *testing.T, folder string) (text string) {
	t.Helper()
	up, err := filepath.Rel(filepath.Join(e.root, folder), e.root)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range e.files(t, folder) {
		original, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		local := publishedSource.ReplaceAllString(string(original), filepath.ToSlash(up)+"/$1\"")
		if err := os.WriteFile(file, []byte(local), 0o600); err != nil {
			t.Fatal(err)
		}
		text += local
	}
	if text != "" && !strings.Contains(text, "required_providers") {
		header := "terraform {\n  required_version = \">= " + snippetVersion(folder) + "\"\n  required_providers {\n" +
			"    muster = { source = \"muster-fleet/muster\" }\n  }\n}\n"
		if err := os.WriteFile(filepath.Join(e.root, folder, "header.tf"), []byte(header), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return text
}

// files are the files of a folder that hold configuration.
func (e examples) files(t *testing.T, folder string) (all []string) {
	t.Helper()
	for _, pattern := range []string{"*.tf", "*.tfquery.hcl"} {
		found, err := filepath.Glob(filepath.Join(e.root, folder, pattern))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

// snippetVersion is the first Terraform that knows what a snippet of the reference
// is about.
func snippetVersion(folder string) string {
	switch strings.Split(filepath.ToSlash(folder), "/")[0] {
	case "actions", "list-resources":
		return "1.14"
	}
	return "1.11"
}

// at is a workspace in a folder, initialized. A folder that needs a newer Terraform
// than that of the test is skipped.
func (e examples) at(t *testing.T, w *acctest.Terraform, folder string) *acctest.Terraform {
	t.Helper()
	own := w.In(t, filepath.Join(e.root, folder))
	for _, file := range e.files(t, folder) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range requiredVersion.FindAllStringSubmatch(string(text), -1) {
			if needs := minor(t, match[1]); e.minor < needs {
				t.Skipf("needs Terraform 1.%d, and this is 1.%d", needs, e.minor)
			}
		}
	}
	own.MustRun("init", "-no-color", "-input=false")
	return own
}

var requiredVersion = regexp.MustCompile(`required_version\s*=\s*">=\s*([0-9.]+)`)

// minor is the second number of a version 1.x.
func minor(t *testing.T, version string) int {
	t.Helper()
	parts := strings.Split(version, ".")
	number, err := strconv.Atoi(parts[min(1, len(parts)-1)])
	if err != nil || parts[0] != "1" {
		t.Fatalf("version %q: %v", version, err)
	}
	return number
}

func terraformVersion(t *testing.T) int {
	t.Helper()
	var about struct {
		Version string `json:"terraform_version"`
	}
	program := cmp.Or(os.Getenv("TF_ACC_TERRAFORM_PATH"), "terraform")
	text, err := exec.CommandContext(t.Context(), program, "version", "-json").Output()
	testkit.Must(t, err)
	testkit.Must(t, json.Unmarshal(text, &about))
	return minor(t, about.Version)
}

// Every folder of examples that holds a configuration is valid by itself, as it is
// what people copy. The documents show no other configuration: see tests/docs.
func TestAccExamplesAreValid(t *testing.T) {
	w := acctest.NewTerraform(t)
	serveClouds(w, cloud{})
	serveHelm(w)
	e := copyExamples(t)
	t.Run("folders", func(t *testing.T) {
		for _, folder := range e.folders {
			t.Run(folder, func(t *testing.T) {
				t.Parallel()
				own := e.at(t, w, folder)
				args := []string{"validate", "-no-color"}
				if queries, _ := filepath.Glob(filepath.Join(own.Dir, "*.tfquery.hcl")); len(queries) > 0 {
					args = append(args, "-query")
				}
				own.MustRun(args...)
			})
		}
	})
}

// Where an example or module has tests of its own, they succeed, and there are some.
// Those in hub.tftest.hcl need a running fleet, and a test of their own.
func TestAccExamplesPassTheirTests(t *testing.T) {
	w := acctest.NewTerraform(t)
	serveClouds(w, cloud{})
	serveHelm(w)
	e := copyExamples(t)
	tested := 0
	t.Run("folders", func(t *testing.T) {
		for _, folder := range e.folders {
			tests, err := filepath.Glob(filepath.Join(e.root, folder, "tests", "*.tftest.hcl"))
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"test", "-no-color"}
			for _, file := range tests {
				if name := filepath.Base(file); name != "hub.tftest.hcl" {
					args = append(args, "-filter=tests/"+name)
				}
			}
			if len(args) == 2 {
				continue
			}
			tested++
			t.Run(folder, func(t *testing.T) {
				t.Parallel()
				said := e.at(t, w, folder).MustRun(args...)
				if !succeeded.MatchString(said) {
					t.Error(said)
				}
			})
		}
	})
	if tested < 5 {
		t.Errorf("only %d examples and modules have tests", tested)
	}
}
