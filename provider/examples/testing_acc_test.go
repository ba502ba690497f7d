package examples_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// The example of how to test one's own modules has to pass, as it is what people
// copy.
func TestAccTheExampleOfTerraformTestPasses(t *testing.T) {
	w := acctest.NewTerraform(t)
	program, err := acctest.Acc.Builder.Path(acctest.Acc.Dir)
	testkit.Must(t, err)
	examples := t.TempDir()
	testkit.Must(t, os.CopyFS(examples, os.DirFS("../../examples")))
	module := filepath.Join(examples, "testing", "terraform-test")
	for _, name := range []string{"cluster1", "cluster2"} {
		cluster, err := testhub.StartCluster(program, filepath.Join(module, ".muster", "clusters", name)) // as muster up does
		testkit.Must(t, err)
		t.Cleanup(func() { testkit.Must(t, cluster.Stop()) })
	}
	// The provider runs in this process, which is in another folder than Terraform.
	test := filepath.Join(module, "tests", "hub.tftest.hcl")
	text, err := os.ReadFile(test)
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(test, bytes.ReplaceAll(text, []byte(`".muster/`), []byte(`"`+module+`/.muster/`)), 0o600))

	w = w.In(t, module)
	w.MustRun("init", "-no-color", "-input=false")
	acctest.Says(t, w.MustRun("test", "-no-color"), "Success! 6 passed, 0 failed.")
}
