package examples_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// TestAccWorkflow runs the steps of the workflow for users, as GitHub would, in the
// example of a module with tests. Only the installation is left out, as Terraform and
// muster are here.
func TestAccWorkflow(t *testing.T) {
	w := acctest.NewTerraform(t)
	program, err := acctest.Acc.Builder.Path(acctest.Acc.Dir)
	testkit.Must(t, err)
	terraform, err := exec.LookPath(os.Getenv("TF_ACC_TERRAFORM_PATH"))
	testkit.Must(t, err)
	tools := t.TempDir()
	testkit.Must(t, os.Symlink(program, filepath.Join(tools, "muster")))
	testkit.Must(t, os.Symlink(terraform, filepath.Join(tools, "terraform")))

	root := t.TempDir()
	testkit.Must(t, os.CopyFS(root, os.DirFS("../../examples")))
	steps := workflowSteps(t, filepath.Join(root, "ci", "github-actions", "terraform-test.yml"))
	// The provider is in this process, and the test's kubeconfigs have relative paths.
	t.Chdir(filepath.Join(root, "testing", "terraform-test"))

	file := filepath.Join(tools, "env")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	environment := append(w.Environment(), "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"), "GITHUB_ENV="+file)
	failed, ran := false, 0
	for _, step := range steps {
		always := step.If == "always()"
		if step.Run == "" || step.Name == "Install muster" || failed != (step.If == "failure()") && !always {
			continue
		}
		command := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
		command.Env = append(environment, lines(t, file)...)
		said, err := command.CombinedOutput()
		ran++
		if err != nil {
			failed = true
			t.Errorf("%s: %v: %s", step.Name, err, said)
		}
		if strings.Contains(step.Run, "terraform test") && !succeeded.Match(said) {
			t.Errorf("%s: it does not say how many tests have passed: %s", step.Name, said)
		}
	}
	if ran < 6 {
		t.Errorf("only %d steps ran", ran)
	}
}

// succeeded is what terraform test ends on.
var succeeded = regexp.MustCompile(`Success!\S* [1-9]\d* passed, 0 failed`)

// workflowStep is a step of a workflow's job.
type workflowStep struct{ Name, If, Run string }

func workflowSteps(t *testing.T, file string) []workflowStep {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	var workflow struct {
		Jobs map[string]struct{ Steps []workflowStep }
	}
	testkit.Must(t, yaml.Unmarshal(text, &workflow))
	return workflow.Jobs["test"].Steps
}

// lines are what a step has added to the environment of those after it.
func lines(t *testing.T, file string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	scanner := bufio.NewScanner(strings.NewReader(string(text)))
	for scanner.Scan() {
		all = append(all, scanner.Text())
	}
	return all
}
