package docs

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the folder of the module, seen from here.
const root = "../.."

const module = "github.com/muster-fleet/terraform-provider-muster"

// goPackage is what `go list` says about a package.
type goPackage struct {
	ImportPath, Dir, Doc      string
	Imports, Deps             []string
	TestGoFiles, XTestGoFiles []string
}

// packages are all packages of the module.
func packages(t *testing.T) []goPackage {
	t.Helper()
	command := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,Imports,Deps,TestGoFiles,XTestGoFiles", "./...")
	command.Dir, command.Env, command.Stderr = root, append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// short is an import path within the module; the provider's program at its root
// goes by the name of its file. Other modules' paths stay as they are.
func short(path string) string {
	if path == module {
		return "main.go"
	}
	return strings.TrimPrefix(path, module+"/")
}

// within says whether a path is a folder or lies in it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// quoted are the texts between backquotes.
func quoted(text string) (all []string) {
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			all = append(all, part)
		}
	}
	return all
}
