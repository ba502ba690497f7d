package klusterlet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// onboardingConfig takes a cluster into the fleet the usual way.
func onboardingConfig(name, kubeconfig, body string) string {
	return acctest.AcceptanceConfig(name, "") + fmt.Sprintf(`
resource "muster_klusterlet" "test" {
  cluster_name       = muster_managed_cluster.test.name
  cluster_connection = { kubeconfig_path = %q }
%s
}
resource "muster_cluster_registration" "test" {
  managed_cluster = muster_klusterlet.test.cluster_name
  depends_on      = [muster_cluster_acceptance.test]
}
`, kubeconfig, body)
}

func isReady() []statecheck.StateCheck {
	return []statecheck.StateCheck{statecheck.ExpectKnownValue(klusterletAddress, tfjsonpath.New("ready"), knownvalue.Bool(true))}
}

// plannedAction expects what a plan does with the agent.
func plannedAction(action plancheck.ResourceActionType) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(klusterletAddress, action)}}
}

// agentOf is the agent that the hub serves for a cluster; empty when no other one
// has been before it.
func agentOf(t *testing.T, name string) string {
	t.Helper()
	object := &clusterv1.ManagedCluster{}
	acctest.Someone(t).Get(object, "", name)
	return object.Annotations[cluster.AgentAnnotation]
}

// However the agent was lost, one apply brings it back, and nothing is tainted.
func TestAccKlusterletJoinsAgain(t *testing.T) {
	t.Parallel()
	const name = "again"
	acctest.Someone(t)
	program, err := acctest.Acc.Builder.Path(acctest.Acc.Dir)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "cluster")
	process, err := testhub.StartCluster(program, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Kill() })
	config := onboardingConfig(name, process.Kubeconfig, "")
	agents := map[string]bool{}
	another := func(*terraform.State) error {
		agent := agentOf(t, name)
		if agent == "" || agents[agent] {
			return fmt.Errorf("the hub serves the agent %q, as before: %v", agent, agents)
		}
		agents[agent] = true
		return nil
	}
	acctest.Run(t,
		resource.TestStep{Config: config, ConfigStateChecks: isReady()},
		// What the agent's resource notes on the cluster's record is not the record's.
		resource.TestStep{
			ResourceName: acctest.ClusterAddress, ImportState: true, ImportStateId: name,
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name",
		},
		// Its namespace was deleted.
		resource.TestStep{
			PreConfig:        func() { acctest.OutsiderOf(t, process).Remove(&corev1.Namespace{}, "", cluster.AgentNamespace) },
			Config:           config,
			ConfigPlanChecks: plannedAction(plancheck.ResourceActionCreate), ConfigStateChecks: isReady(), Check: another,
		},
		// It is replaced, as after terraform taint or with -replace.
		resource.TestStep{
			Config: config, Taint: []string{klusterletAddress},
			ConfigPlanChecks: plannedAction(plancheck.ResourceActionReplace), ConfigStateChecks: isReady(), Check: another,
		},
		// The cluster was rebuilt at its address.
		resource.TestStep{
			PreConfig: func() {
				if err := process.Kill(); err != nil {
					t.Fatal(err)
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				if err := process.Restart(); err != nil {
					t.Fatal(err)
				}
			},
			Config:           config,
			ConfigPlanChecks: plannedAction(plancheck.ResourceActionUpdate), ConfigStateChecks: isReady(), Check: another,
		},
		resource.TestStep{Config: config, PlanOnly: true},
	)
}

// A connection that leads to another cluster is refused before anything is
// done, unless the configuration says that this is the cluster now.
func TestAccKlusterletMovesOnlyOnRequest(t *testing.T) {
	t.Parallel()
	const name = "moving"
	first, second := acctest.DevCluster(t), acctest.DevCluster(t)
	uidOf := func(process *testhub.Process) string {
		namespace := &corev1.Namespace{}
		acctest.OutsiderOf(t, process).Get(namespace, "", "kube-system")
		return string(namespace.UID)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	point := func(process *testhub.Process) {
		raw, err := os.ReadFile(process.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	point(first)
	refusal := regexp.MustCompile(`(?s)leads to another cluster.*` + uidOf(first) + `.*` + uidOf(second) + `.*cluster_uid`)
	nothingIn := func(*terraform.State) error {
		if acctest.OutsiderOf(t, second).Exists(&corev1.Namespace{}, "", cluster.AgentNamespace) {
			return fmt.Errorf("an agent was installed in the other cluster")
		}
		return nil
	}
	acctest.Run(t,
		resource.TestStep{Config: onboardingConfig(name, first.Kubeconfig, "")},
		resource.TestStep{Config: onboardingConfig(name, second.Kubeconfig, ""), ExpectError: refusal},
		resource.TestStep{Config: onboardingConfig(name, second.Kubeconfig, `cluster_uid = "another"`), ExpectError: regexp.MustCompile(`cluster_uid is "another"`)},
		// The same cluster by another way is nothing to talk about.
		resource.TestStep{Config: onboardingConfig(name, file, ""), ConfigPlanChecks: plannedAction(plancheck.ResourceActionUpdate), Check: nothingIn},
		// The file has come to lead elsewhere, unseen.
		resource.TestStep{PreConfig: func() { point(second) }, Config: onboardingConfig(name, file, ""), ExpectError: refusal},
		resource.TestStep{
			PreConfig:         func() { point(first) },
			Config:            onboardingConfig(name, second.Kubeconfig, fmt.Sprintf("cluster_uid = %q", uidOf(second))),
			ConfigStateChecks: isReady(),
			Check: func(*terraform.State) error {
				if acctest.OutsiderOf(t, first).Exists(&corev1.Namespace{}, "", cluster.AgentNamespace) {
					return fmt.Errorf("the cluster has two agents")
				}
				if agentOf(t, name) == "" {
					return fmt.Errorf("the agent from before is still served")
				}
				return nil
			},
		},
	)
}

// A name that an available cluster has is not taken from it by a second
// resource.
func TestAccKlusterletTakesNoNameAway(t *testing.T) {
	t.Parallel()
	const name = "rival"
	first, second := acctest.DevCluster(t), acctest.DevCluster(t)
	config := onboardingConfig(name, first.Kubeconfig, "")
	acctest.Run(t,
		resource.TestStep{Config: config},
		resource.TestStep{
			Config: config + fmt.Sprintf(`
resource "muster_klusterlet" "second" {
  cluster_name       = muster_cluster_registration.test.managed_cluster
  cluster_connection = { kubeconfig_path = %q }
}
`, second.Kubeconfig),
			ExpectError: regexp.MustCompile(`(?s)Another cluster is called "rival".*cluster_uid`),
		},
		// Nor is a cluster joined under a second name.
		resource.TestStep{
			Config: config + fmt.Sprintf(`
resource "muster_klusterlet" "second" {
  cluster_name       = "${muster_cluster_registration.test.managed_cluster}-twice"
  cluster_connection = { kubeconfig_path = %q }
}
`, first.Kubeconfig),
			ExpectError: regexp.MustCompile(`(?s)has an agent of another name.*serves the cluster "rival"`),
		},
	)
}
