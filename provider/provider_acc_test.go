package provider_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// unreachable is where nobody listens.
const unreachable = `provider "muster" {
  kubeconfig_path = null
  host            = "https://127.0.0.1:1"
}
`

// A plan needs no hub: everything that is wrong with it is found without, and
// nothing is dialled.
func TestAccPlanWithoutAHub(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		Config:             unreachable + acctest.AcceptanceConfig("offline", "") + acctest.SetConfig("offline", "") + acctest.PlacementConfig("default", acctest.PlacementBody),
		PlanOnly:           true,
		ExpectNonEmptyPlan: true,
	})
}

// The hub may be made by the same apply.
func TestAccPlanWithAHubThatIsNotKnownYet(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		Config: fmt.Sprintf(`
resource "terraform_data" "hub" { input = %q }
provider "muster" { kubeconfig_path = terraform_data.hub.output }
`, acctest.Acc.HubKubeconfig()) + acctest.AcceptanceConfig("unknown-hub", "") + `
ephemeral "muster_bootstrap_kubeconfig" "test" { managed_cluster = muster_managed_cluster.test.name }
provider "echo" { data = ephemeral.muster_bootstrap_kubeconfig.test.token }
resource "echo" "test" {}
`,
		ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
			plancheck.ExpectResourceAction(acctest.ClusterAddress, plancheck.ResourceActionCreate),
		}},
	})
}

func TestAccProviderBadInput(t *testing.T) {
	for name, test := range map[string]struct{ config, want string }{
		"two kubeconfigs":     {`kubeconfig_path = "a"` + "\n" + `kubeconfig = "b"`, `(?s)kubeconfig`},
		"host":                {`host = "hub:6443"`, `"hub:6443" is not a URL`},
		"not PEM":             {`host = "https://hub"` + "\n" + `cluster_ca_certificate = "LS0tLS1CRUdJTg=="`, `base64decode`},
		"certificate, no key": {`host = "https://hub"` + "\n" + `client_certificate = file("/etc/ssl/certs/ca-certificates.crt")`, `client_key`},
		"exec version":        {`host = "https://hub"` + "\n" + `exec = { api_version = "v1", command = "x" }`, `client.authentication.k8s.io/v1`},
	} {
		t.Run(name, func(t *testing.T) {
			acctest.Run(t, resource.TestStep{
				Config:      "provider \"muster\" {\n" + test.config + "\n}\n" + acctest.ClusterConfig("c1", ""),
				PlanOnly:    true,
				ExpectError: regexp.MustCompile(test.want),
			})
		})
	}
}

// A hub that is killed in the middle of an apply and comes back is no reason to
// fail.
func TestAccApplySurvivesARestartOfTheHub(t *testing.T) {
	if acctest.Acc.Hub == nil {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	program, err := acctest.Acc.Builder.Path(acctest.Acc.Dir)
	if err != nil {
		t.Fatal(err)
	}
	hub, err := testhub.StartHub(program, filepath.Join(t.TempDir(), "hub"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Stop() })
	restarted := make(chan error, 1)
	acctest.Run(t, resource.TestStep{
		PreConfig: func() {
			if err := hub.Kill(); err != nil {
				t.Error(err)
			}
			go func() { restarted <- hub.Restart() }()
		},
		Config: fmt.Sprintf("provider \"muster\" {\n  kubeconfig_path = %q\n}\n", hub.Kubeconfig) + `
resource "muster_managed_cluster" "many" {
  count = 20
  name  = "restart-${count.index}"
}
resource "muster_cluster_acceptance" "many" {
  count           = 20
  managed_cluster = muster_managed_cluster.many[count.index].name
}`,
	})
	if err := <-restarted; err != nil {
		t.Error(err)
	}
}
