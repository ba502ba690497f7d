package chaos_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

func skipWithoutTerraform(t testing.TB) {
	t.Helper()
	if os.Getenv("TF_ACC") == "" || os.Getenv("TF_ACC_TERRAFORM_PATH") == "" {
		t.Skip("set TF_ACC=1 and TF_ACC_TERRAFORM_PATH, as make test-system does: this test drives a real Terraform")
	}
}

// terraformEnv is the environment in which Terraform takes the provider that is built from
// this tree.
func terraformEnv(t testing.TB) []string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir, "github.com/muster-fleet/terraform-provider-muster")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the provider: %v\n%s", err, out)
	}
	rc := filepath.Join(dir, "terraform.rc")
	testkit.Must(t, os.WriteFile(rc, fmt.Appendf(nil, `provider_installation {
  dev_overrides {
    "registry.terraform.io/muster-fleet/muster" = %[1]q
    "registry.opentofu.org/muster-fleet/muster" = %[1]q
  }
  direct {}
}`, dir), 0o600))
	return append(os.Environ(), "TF_CLI_CONFIG_FILE="+rc, "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1")
}

const configuration = `
terraform {
  required_providers {
    muster = { source = "muster-fleet/muster" }
  }
}

provider "muster" {
  kubeconfig_path = "kubeconfig"
}

variable "works" {
  type = map(object({ cluster = string, name = string, content = map(string) }))
}

resource "muster_manifest_work" "this" {
  for_each        = var.works
  managed_cluster = each.value.cluster
  name            = each.value.name

  objects = [for name, value in each.value.content : {
    apiVersion = "v1"
    kind       = "ConfigMap"
    metadata   = { namespace = "default", name = name, labels = { muster-lab = "true" } }
    data       = { value = value }
  }]
}
`

// configuredWork is a work that Terraform is to make.
type configuredWork struct {
	Cluster string  `json:"cluster"`
	Name    string  `json:"name"`
	Content content `json:"content"`
}

// infrastructure is a Terraform configuration with its state, applied over a network that
// can fail.
type infrastructure struct {
	dir   string
	env   []string
	works map[string]configuredWork // as applied last
}

func newInfrastructure(t testing.TB, hub *rest.Config, server string) *infrastructure {
	in := &infrastructure{dir: t.TempDir(), env: terraformEnv(t)}
	testkit.Must(t, rest.LoadTLSFiles(hub))
	access, err := kubeconfig.Config{
		Cluster: "hub", User: "admin", Server: server,
		CAData: hub.CAData, CertData: hub.CertData, KeyData: hub.KeyData,
	}.YAML()
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(filepath.Join(in.dir, "kubeconfig"), access, 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(in.dir, "main.tf"), []byte(configuration), 0o600))
	return in
}

func (in *infrastructure) run(args ...string) error {
	cmd := exec.Command(os.Getenv("TF_ACC_TERRAFORM_PATH"), append([]string{"-chdir=" + in.dir}, args...)...)
	cmd.Env = in.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("terraform %s: %w\n%s", args[0], err, out)
	}
	return nil
}

func (in *infrastructure) apply() error {
	return in.run("apply", "-auto-approve", "-input=false", "-no-color")
}

// writeInfrastructure begins to apply other works than before. The returned function waits
// for the end of that, and applies them again if something went wrong: what went wrong has
// to be over by then. The works are as they were applied afterwards, and nothing is left
// to plan.
func (l *lab) writeInfrastructure() (finish func()) {
	in, works := l.infrastructure, map[string]configuredWork{}
	for i := range 3 {
		name, of := "tf"+strconv.Itoa(i), l.members[l.rand.IntN(len(l.members))].name
		if l.rand.IntN(4) > 0 {
			works[of+"/"+name] = configuredWork{of, name, l.newContent(of + "-" + name)}
		}
	}
	variables, err := json.Marshal(map[string]any{"works": works})
	testkit.Must(l.t, err)
	testkit.Must(l.t, os.WriteFile(filepath.Join(in.dir, "terraform.tfvars.json"), variables, 0o600))
	l.note("terraform apply: %s", variables)
	applied := make(chan error, 1)
	go func() { applied <- in.apply() }()
	return func() {
		if err := <-applied; err != nil {
			l.note("%v", err)
			testkit.Eventually(l.t, l.atLeisure(l.serving))
			if again := in.apply(); again != nil {
				l.t.Fatalf("round %d, seed %d: %v\n%s", l.round, *seed, errors.Join(err, again), l.report())
			}
		}
		for key := range in.works {
			l.model.write(l.round, "work "+key, "", done)
		}
		for key, w := range works {
			l.model.write(l.round, "work "+key, w.Content.String(), done)
		}
		in.works = works
		l.converge()
		if err := in.run("plan", "-detailed-exitcode", "-input=false", "-no-color"); err != nil {
			l.t.Fatalf("round %d, seed %d: nothing was to be planned after an apply: %v\n%s",
				l.round, *seed, err, l.report())
		}
	}
}
