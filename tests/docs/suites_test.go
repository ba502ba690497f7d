package docs

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestSuites compares the suites of make test and make test-system with the tree: every
// package with tests is in one of them.
func TestSuites(t *testing.T) {
	suite := map[string][]string{}
	for _, name := range []string{"fast", "system"} {
		command := exec.Command("hack/test-suite.sh", name)
		command.Dir, command.Env, command.Stderr = root, append(os.Environ(), "LIST=1"), os.Stderr
		out, err := command.Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range strings.Fields(string(out)) {
			suite[path] = append(suite[path], name)
		}
	}
	for _, p := range packages(t) {
		tested := len(p.TestGoFiles)+len(p.XTestGoFiles) > 0
		if in := suite[p.ImportPath]; tested != (len(in) == 1) {
			t.Errorf("%s is in the suites %v of hack/test-suite.sh, want one if it has tests, else none", p.ImportPath, in)
		}
	}
	for _, name := range []string{"chaos", "e2e", "hostile", "life"} {
		if path := module + "/tests/" + name; !slices.Equal(suite[path], []string{"system"}) {
			t.Errorf("%s is in %v, want the suite system", path, suite[path])
		}
	}
}
