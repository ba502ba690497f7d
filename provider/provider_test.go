package provider

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

func TestEnvironment(t *testing.T) {
	all := map[string]string{
		"KUBECONFIG": "/ambient", "MUSTER_KUBECONFIG": "/mine", "MUSTER_HOST": "https://env", "MUSTER_TOKEN": "secret", "MUSTER_CONTEXT": "ctx", "MUSTER_INSECURE": "true",
	}
	for name, test := range map[string]struct {
		config      connectionModel
		environment map[string]string
		want        kube.Connection
	}{
		"nothing":                          {want: kube.Connection{}},
		"ambient kubeconfig":               {environment: map[string]string{"KUBECONFIG": "/ambient"}, want: kube.Connection{KubeconfigPath: "/ambient"}},
		"own kubeconfig goes first":        {environment: map[string]string{"KUBECONFIG": "/ambient", "MUSTER_KUBECONFIG": "/mine"}, want: kube.Connection{KubeconfigPath: "/mine"}},
		"host instead of ambient":          {environment: map[string]string{"KUBECONFIG": "/ambient", "MUSTER_HOST": "https://env", "MUSTER_TOKEN": "secret"}, want: kube.Connection{Host: "https://env", Token: "secret"}},
		"configuration over environment":   {config: connectionModel{Host: types.StringValue("https://hcl"), Token: types.StringValue("hcl")}, environment: map[string]string{"KUBECONFIG": "/ambient", "MUSTER_HOST": "https://env", "MUSTER_TOKEN": "secret"}, want: kube.Connection{Host: "https://hcl", Token: "hcl"}},
		"configured kubeconfig stays pure": {config: connectionModel{KubeconfigPath: types.StringValue("/hcl")}, environment: map[string]string{"KUBECONFIG": "/ambient", "MUSTER_HOST": "https://env"}, want: kube.Connection{KubeconfigPath: "/hcl"}},
		"unknown host is not replaced":     {config: connectionModel{Host: types.StringUnknown()}, environment: all, want: kube.Connection{Context: "ctx", Token: "secret", Insecure: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.config.withEnvironment(func(key string) string { return test.environment[key] }).connection()
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestUnknownAttributesAreNamed(t *testing.T) {
	model := connectionModel{Host: types.StringUnknown(), Token: types.StringUnknown(), CA: types.StringValue("x")}
	if got := model.unknown(); !slices.Equal(got, []string{"host", "token"}) {
		t.Errorf("got %q", got)
	}
}

func TestWithoutAHubTheErrorSaysWhatToSet(t *testing.T) {
	var diags diag.Diagnostics
	if client := newHub(kube.Connection{Token: "x"}, nil, "test").client(&diags); client != nil || !diags.HasError() {
		t.Fatal("a hub came out of nothing")
	}
	if got := diags.Errors()[0].Detail(); !regexp.MustCompile(`kubeconfig_path.*MUSTER_KUBECONFIG.*no fallback`).MatchString(got) {
		t.Errorf("got %q", got)
	}
}

// unreachable is where nobody listens.
const unreachable = `provider "muster" {
  kubeconfig_path = null
  host            = "https://127.0.0.1:1"
}
`

// A plan needs no hub: everything that is wrong with it is found without, and
// nothing is dialled.
func TestAccPlanWithoutAHub(t *testing.T) {
	accTest(t, resource.TestStep{
		Config:             unreachable + acceptanceConfig("offline", "") + setConfig("offline", "") + placementConfig("default", placementBody),
		PlanOnly:           true,
		ExpectNonEmptyPlan: true,
	})
}

// The hub may be made by the same apply.
func TestAccPlanWithAHubThatIsNotKnownYet(t *testing.T) {
	accTest(t, resource.TestStep{
		Config: fmt.Sprintf(`
resource "terraform_data" "hub" { input = %q }
provider "muster" { kubeconfig_path = terraform_data.hub.output }
`, acc.hubKubeconfig()) + acceptanceConfig("unknown-hub", "") + `
ephemeral "muster_bootstrap_kubeconfig" "test" { managed_cluster = muster_managed_cluster.test.name }
provider "echo" { data = ephemeral.muster_bootstrap_kubeconfig.test.token }
resource "echo" "test" {}
`,
		ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
			plancheck.ExpectResourceAction(clusterAddress, plancheck.ResourceActionCreate),
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
			accTest(t, resource.TestStep{
				Config:      "provider \"muster\" {\n" + test.config + "\n}\n" + clusterConfig("c1", ""),
				PlanOnly:    true,
				ExpectError: regexp.MustCompile(test.want),
			})
		})
	}
}

// A hub that is killed in the middle of an apply and comes back is no reason to
// fail.
func TestAccApplySurvivesARestartOfTheHub(t *testing.T) {
	if acc.hub == nil {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	program, err := acc.builder.Path(acc.dir)
	if err != nil {
		t.Fatal(err)
	}
	hub, err := testhub.StartHub(program, filepath.Join(t.TempDir(), "hub"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Stop() })
	restarted := make(chan error, 1)
	accTest(t, resource.TestStep{
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
