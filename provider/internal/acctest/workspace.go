package acctest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/muster-fleet/terraform-provider-muster/tests/inprocess"
)

// Workspace is one user's configuration and state, without a Terraform.
type Workspace = inprocess.Workspace

// NewWorkspace is an empty one for the shared hub.
func NewWorkspace(t *testing.T) *Workspace {
	t.Helper()
	if Acc.Hub == nil {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	return inprocess.NewWorkspace(t, Factories())
}

// Run runs steps against the shared hub, without a Terraform.
func Run(t *testing.T, steps ...resource.TestStep) {
	t.Helper()
	if Acc.Hub == nil {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	inprocess.Test(t, resource.TestCase{ProtoV6ProviderFactories: Factories(), Steps: steps})
}

// RunTerraform runs steps against the shared hub with a real Terraform.
func RunTerraform(t *testing.T, steps ...resource.TestStep) {
	t.Helper()
	resource.Test(t, resource.TestCase{ProtoV6ProviderFactories: Factories(), Steps: steps})
}

// Says fails the test if one of the texts is missing in what Terraform said.
func Says(t *testing.T, said string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(said, strings.Join(strings.Fields(text), " ")) {
			t.Errorf("Terraform does not say %q but %s", text, Excerpt(said))
		}
	}
}

// Excerpt leaves out what a plan lists.
func Excerpt(said string) string {
	return regexp.MustCompile(`Terraform will perform the following actions:.*?Plan:`).ReplaceAllString(said, "… Plan:")
}
