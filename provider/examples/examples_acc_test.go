package examples_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// fleetOf is the module with these clusters, by name, at these kubeconfigs, and a
// work for each.
func fleetOf(t *testing.T, clusters map[string]string) string {
	t.Helper()
	module, err := filepath.Abs("../../examples/modules/fleet-onboarding")
	if err != nil {
		t.Fatal(err)
	}
	var entries []string
	for name, kubeconfig := range clusters {
		entries = append(entries, fmt.Sprintf("    %s = { connection = { kubeconfig_path = %q } }", name, kubeconfig))
	}
	return fmt.Sprintf(`
locals {
  clusters = {
%s
  }
}

module "fleet" {
  source   = %q
  clusters = local.clusters
}

resource "muster_manifest_work" "hello" {
  for_each = local.clusters

  managed_cluster = module.fleet.clusters[each.key]
  name            = "hello"
  objects         = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "hello", namespace = "default" } }]
  wait            = { conditions = ["Available"] }

  lifecycle {
    precondition {
      condition     = module.fleet.problems[each.key] == null
      error_message = "no work for ${each.key}"
    }
  }
}
`, strings.Join(entries, "\n"), module)
}

func TestAccOneBadClusterHoldsUpNoOther(t *testing.T) {
	good := acctest.DevCluster(t)
	w := acctest.NewTerraform(t)
	both := fleetOf(t, map[string]string{"tolerant-good": good.Kubeconfig, "tolerant-bad": "/nowhere/admin.kubeconfig"})
	if planned := w.Plan(both); !strings.Contains(planned, "Plan: 10 to add") {
		t.Errorf("a cluster that can't be reached stops the plan: %s", acctest.Excerpt(planned))
	}
	said, ok := w.Apply(both)
	if ok {
		t.Error("nobody is told of the bad cluster")
	}
	acctest.Says(t, said, "The cluster tolerant-bad has not joined.", `/nowhere/admin.kubeconfig`, "no work for tolerant-bad")
	state, _ := w.Run("state", "list")
	acctest.Says(t, state, `module.fleet.muster_cluster_registration.this["tolerant-good"]`, `muster_manifest_work.hello["tolerant-good"]`)
	if strings.Contains(state, `registration.this["tolerant-bad"]`) || strings.Contains(said, "is tainted") {
		t.Errorf("the bad cluster counts as registered, or something is tainted: %s", state)
	}

	// It is tried again with each apply, and the good one is left alone.
	if said, ok = w.Apply(both); ok {
		t.Error("the bad cluster was forgotten")
	}
	acctest.Says(t, said, "0 to destroy", "The cluster tolerant-bad has not joined.")

	if said, ok = w.Apply(fleetOf(t, map[string]string{"tolerant-good": good.Kubeconfig})); !ok {
		t.Errorf("the bad cluster can't be given up: %s", acctest.Excerpt(said))
	}
	acctest.Says(t, said, `Nothing was removed from cluster "tolerant-bad"`)
	if said, ok = w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}
