package provider_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

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
	acctest.RunTerraform(t, resource.TestStep{
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

// So may be the way to a cluster, as a whole or in part.
func TestAccPlanWithAConnectionThatIsNotKnownYet(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		Config: `
resource "terraform_data" "late" { input = "x" }
resource "muster_klusterlet" "whole" {
  cluster_name       = "late-whole"
  cluster_connection = terraform_data.late.output == "x" ? { host = "https://127.0.0.1:1" } : null
}
resource "muster_klusterlet" "part" {
  cluster_name = "late-part"
  cluster_connection = {
    host = "https://127.0.0.1:1"
    exec = terraform_data.late.output == "x" ? { api_version = "client.authentication.k8s.io/v1", command = "x" } : null
  }
}
`,
		PlanOnly: true, ExpectNonEmptyPlan: true,
	})
}

func TestAccProviderBadInput(t *testing.T) {
	for name, test := range map[string]struct{ config, want string }{
		"two kubeconfigs":     {`kubeconfig_path = "a"` + "\n" + `kubeconfig = "b"`, `kubeconfig_path\s+and\s+kubeconfig\s+are\s+both\s+set`},
		"two names":           {`config_path = "a"` + "\n" + `kubeconfig_path = "a"`, `config_path\s+and\s+kubeconfig_path\s+are\s+both\s+set,\s+and\s+are\s+two\s+names`},
		"no path":             {`config_paths = []`, `config_paths`},
		"empty path":          {`config_path = ""`, `config_path`},
		"nobody":              {`host = "https://hub"` + "\n" + `impersonate = { groups = ["a"] }`, `"user"\s+is\s+required`},
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

// The names of the Kubernetes provider are understood, and so is an identity to act
// as. What the identity may not do is refused in its name.
func TestAccProviderConfiguredAsTheKubernetesProviderIs(t *testing.T) {
	config := func(block string) string {
		return fmt.Sprintf("provider \"muster\" {\n  config_paths   = [%q]\n  config_context = \"muster-hub\"\n%s\n}\n", acctest.Acc.HubKubeconfig(), block) + acctest.SetConfig("as-kubernetes", "")
	}
	acctest.Run(t,
		resource.TestStep{Config: config("config_context_auth_info = \"jim\""), ExpectError: acctest.Saying(`has no user "jim"; it has`)},
		resource.TestStep{Config: config("")},
		resource.TestStep{
			Config:      config(`impersonate = { user = "jane", groups = ["devs"], extra = { reason = ["test"] } }`),
			ExpectError: acctest.Saying(`User "jane" cannot get resource "managedclustersets"`),
		},
		resource.TestStep{Config: config(`impersonate = { user = "jane", groups = ["system:masters"] }`), PlanOnly: true},
	)
}

// What is not configured, or not there yet, is said once and at plan.
func TestAccAPlanSaysThatNoHubIsConfigured(t *testing.T) {
	w := acctest.NewWorkspace(t)
	sets := `
resource "muster_managed_cluster_set" "x" {
  count = 5
  name  = "unconfigured-${count.index}"
}
`
	nowhere := filepath.Join(t.TempDir(), "kubeconfig")
	w.Setenv("MUSTER_KUBECONFIG", "")
	for config, want := range map[string]string{
		sets: "Warning: No hub is configured",
		"provider \"muster\" {\n  config_path = \"" + nowhere + "\"\n}\n" + sets: "Warning: The connection to the hub is not configured properly",
	} {
		said := w.Plan(config)
		acctest.Says(t, said, want, "Plan: 5 to add")
		if count := strings.Count(said, want); count != 1 || strings.Contains(said, "Error:") {
			t.Errorf("it is said %d times: %s", count, said)
		}
	}
	acctest.Says(t, w.Plan("provider \"muster\" {\n  config_path = \""+nowhere+"\"\n}\n"+sets), nowhere)
	// Credentials from the environment without a server are not sent anywhere.
	w.Setenv("MUSTER_TOKEN", "hunter2")
	w.Setenv("KUBECONFIG", acctest.Acc.Hub.Kubeconfig)
	acctest.Says(t, w.Plan(sets), "Error: The environment does not say which server the credentials are for", "MUSTER_TOKEN is set")
}

// With the hub down, a plan ends soon and says why: once, however many resources it
// has.
func TestAccAPlanWithTheHubDownSaysSoOnce(t *testing.T) {
	w := acctest.NewWorkspace(t)
	t.Parallel() // It waits for hub.RefreshBudget.
	hub := acctest.OwnHub(t)
	config := fmt.Sprintf("provider \"muster\" {\n  config_path = %q\n}\n", hub.Kubeconfig) + `
resource "muster_managed_cluster_set" "x" {
  count = 8
  name  = "down-${count.index}"
}`
	if said, ok := w.Apply(config); !ok {
		t.Fatal(said)
	}
	if err := hub.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	said := w.Plan(config)
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the plan took %s", took)
	}
	acctest.Says(t, said, "Planning failed", "connection refused")
	if count := strings.Count(said, "Error: "); count != 1 {
		t.Errorf("it is said %d times: %s", count, said)
	}
}

// Why there are no credentials, or no answer, is in the error.
func TestAccErrorsSayWhyThereWasNoAnswer(t *testing.T) {
	acctest.Run(t,
		resource.TestStep{
			Config: `provider "muster" {
  host = "https://127.0.0.1:1"
  exec = { api_version = "client.authentication.k8s.io/v1", command = "sh", args = ["-c", "echo 'log in first' >&2; exit 3"] }
}
` + acctest.SetConfig("no-credentials", ""),
			ExpectError: acctest.Saying("failed with exit code 3; the program says:", "log in first", `The program "sh" gets the credentials`),
		},
		resource.TestStep{
			Config: acctest.AcceptanceConfig("unreachable", "") + `
resource "muster_klusterlet" "test" {
  cluster_name       = muster_cluster_acceptance.test.managed_cluster
  cluster_connection = { host = "https://127.0.0.1:1", token = "x" }
  timeouts {
    create = "2s"
  }
}
`,
			ExpectError: acctest.Saying("there was no answer in time, and the last attempt failed", "connection refused", "Check that the server runs"),
		},
	)
}

// A hub that is killed in the middle of an apply and comes back is no reason to
// fail.
func TestAccApplySurvivesARestartOfTheHub(t *testing.T) {
	hub := acctest.OwnHub(t)
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
  count = 8
  name  = "restart-${count.index}"
}
resource "muster_cluster_acceptance" "many" {
  count           = 8
  managed_cluster = muster_managed_cluster.many[count.index].name
}`,
	})
	if err := <-restarted; err != nil {
		t.Error(err)
	}
}
