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
	command := exec.Command("hack/test-suite.sh", "fast", "system")
	command.Dir, command.Env, command.Stderr = root, append(os.Environ(), "LIST=1"), os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		suite[path] = append(suite[path], name)
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
