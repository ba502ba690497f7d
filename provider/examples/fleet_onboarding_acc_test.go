package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// onboardingModule is a configuration with the module fleet-onboarding, for the hub of
// a kubeconfig. clusters is the module's argument, in HCL.
func onboardingModule(t *testing.T, hub, clusters string) string {
	t.Helper()
	module, err := filepath.Abs("../../examples/modules/fleet-onboarding")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`
provider "muster" {
  kubeconfig_path = %q
}

module "fleet" {
  source        = %q
  agent_timeout = "1m"
  clusters      = {
%s
  }
}
`, hub, module, clusters)
}

func reached(name, kubeconfig, more string) string {
	return fmt.Sprintf("    %s = { connection = { kubeconfig_path = %q }%s }\n", name, kubeconfig, more)
}

// readOnly is the path of a kubeconfig of an identity that may only read.
func readOnly(t *testing.T, process *testhub.Process) string {
	t.Helper()
	o := acctest.OutsiderOf(t, process)
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = "default", "reader"
	o.Apply(account)
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}}}
	role.Name = "reader"
	o.Apply(role)
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "reader"}},
	}
	binding.Name = "reader"
	o.Apply(binding)
	ctx, cancel := o.Context()
	defer cancel()
	request := &authenticationv1.TokenRequest{}
	if err := o.Client.CreateSubresource(ctx, account, "token", request); err != nil {
		t.Fatal(err)
	}
	ca, err := o.Client.CAData()
	if err != nil {
		t.Fatal(err)
	}
	config, err := kubeconfig.Config{Cluster: "c", User: "reader", Server: process.URL, CAData: ca, Token: request.Status.Token}.YAML()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "reader.kubeconfig")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.WithToken(request.Status.Token).Create(ctx, &corev1.Namespace{}); err == nil {
		t.Fatal("the reader may write")
	}
	return path
}

// move makes a file lead where another one does.
func move(t *testing.T, file, from string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A plan of a fleet only reads, the hub and the clusters, and writes to neither.
func TestAccFleetIsPlannedByAReader(t *testing.T) {
	managed := acctest.DevCluster(t)
	w := acctest.NewTerraform(t)
	hubFile, clusterFile := filepath.Join(t.TempDir(), "hub"), filepath.Join(t.TempDir(), "cluster")
	as := func(hub, cluster string) { move(t, hubFile, hub); move(t, clusterFile, cluster) }
	hubReader, clusterReader := readOnly(t, acctest.Acc.Hub), readOnly(t, managed)
	config := onboardingModule(t, hubFile, reached("planned", clusterFile, ""))

	as(hubReader, clusterReader)
	said := w.Plan(config)
	acctest.Says(t, said, "Plan: 4 to add, 0 to change, 0 to destroy.")
	if strings.Contains(said, "Error") || strings.Contains(said, "Warning") {
		t.Error(said)
	}
	as(acctest.Acc.Hub.Kubeconfig, managed.Kubeconfig)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(said)
	}
	as(hubReader, clusterReader)
	said = w.Plan(config)
	acctest.Says(t, said, "No changes.")
	if strings.Contains(said, "Warning") {
		t.Error(said)
	}
	as(acctest.Acc.Hub.Kubeconfig, managed.Kubeconfig)
	if said, ok := w.Destroy(); !ok {
		t.Error(said)
	}
}

// With the hub away, new clusters are planned, a refresh fails soon and says why, and
// a plan without one succeeds.
func TestAccFleetIsPlannedWithoutItsHub(t *testing.T) {
	t.Parallel() // It mostly waits, and has clusters of its own.
	managed := sibling(t, acctest.DevCluster(t))
	hub := acctest.OwnHub(t)
	w := acctest.NewTerraform(t)
	config := onboardingModule(t, hub.Kubeconfig, reached("orphan", managed.Kubeconfig, ""))
	if said, ok := w.Apply(config); !ok {
		t.Fatal(said)
	}
	if err := hub.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	acctest.Says(t, w.Plan(config), "connection refused", "Check that the server runs")
	if took := time.Since(began); took > time.Minute {
		t.Errorf("a refresh without the hub takes %s", took)
	}
	said, ok := w.Run("plan", "-refresh=false", "-no-color", "-input=false")
	if !ok || !strings.Contains(said, "No changes.") {
		t.Error(said)
	}
	if said, ok := w.Run("plan", "-refresh=false", "-no-color", "-input=false", "-destroy"); !ok {
		t.Error(said)
	}
	w.LoseState()
	began = time.Now()
	acctest.Says(t, w.Plan(config), "Plan: 4 to add, 0 to change, 0 to destroy.")
	if took := time.Since(began); took > time.Minute {
		t.Errorf("a plan without the hub takes %s", took)
	}
	acctest.OutsiderOf(t, managed).Remove(&corev1.Namespace{}, "", cluster.AgentNamespace)
}

// The agent may come before the hub accepts the cluster.
func TestAccFleetAgentBeforeItsAcceptance(t *testing.T) {
	managed := acctest.DevCluster(t)
	w := acctest.NewTerraform(t)
	config := func(accept bool) string {
		return onboardingModule(t, acctest.Acc.Hub.Kubeconfig, reached("early", managed.Kubeconfig, fmt.Sprintf(", accept = %t", accept)))
	}
	said, ok := w.Apply(config(false))
	if !ok {
		t.Fatal(said)
	}
	if !acctest.OutsiderOf(t, managed).Exists(&corev1.Secret{}, cluster.AgentNamespace, cluster.BootstrapSecret) {
		t.Error("the agent has no bootstrap kubeconfig")
	}
	acctest.Says(t, w.Plan(config(false)), "No changes.")
	if said, ok = w.Apply(config(true)); !ok {
		t.Error(said)
	}
	state := w.MustRun("state", "list")
	acctest.Says(t, state, `muster_cluster_registration.this["early"]`)
	if said, ok := w.Destroy(); !ok {
		t.Error(said)
	}
}

// A cluster without a connection registers itself, by the command that the module
// gives out.
func TestAccFleetClusterRegistersItself(t *testing.T) {
	managed := acctest.DevCluster(t)
	w := acctest.NewTerraform(t)
	config := onboardingModule(t, acctest.Acc.Hub.Kubeconfig, "    edge = {}\n") + `
output "commands" { value = module.fleet.join_commands["edge"] }
`
	said, ok := w.Apply(config)
	if !ok {
		t.Fatal(said)
	}
	acctest.Says(t, said, "muster rejoin edge > edge.bootstrap.kubeconfig", "2 added")
	program, err := acctest.Acc.Builder.Path(acctest.Acc.Dir)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "rejoin", "edge", "--kubeconfig", acctest.Acc.Hub.Kubeconfig)
	command.Stderr = os.Stderr
	text, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	bootstrap := filepath.Join(t.TempDir(), "bootstrap")
	if err := os.WriteFile(bootstrap, text, 0o600); err != nil {
		t.Fatal(err)
	}
	agent, err := testhub.StartAgent(program, "edge", bootstrap, managed.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Kill() })
	object := &clusterv1.ManagedCluster{}
	acctest.Someone(t).Wait(object, "", "edge", func() bool { return meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionJoined) })
	acctest.Says(t, w.Plan(config), "No changes.")
	if said, ok := w.Destroy(); !ok {
		t.Error(said)
	}
}

// A cluster that has joined and is offline does not fail the run: its agent is changed
// by a later apply. One whose agent can't reach the hub is not waited for twice, and
// the reason is said with what to change.
func TestAccFleetOfflineIsNotTheSameAsNeverJoined(t *testing.T) {
	t.Parallel() // It mostly waits, and has clusters of its own.
	lost := sibling(t, acctest.DevCluster(t))
	program, err := acctest.Acc.Builder.Path(acctest.Acc.Dir)
	if err != nil {
		t.Fatal(err)
	}
	offline, err := testhub.StartCluster(program, filepath.Join(t.TempDir(), "away"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = offline.Kill() })
	w := acctest.NewTerraform(t)
	config := func(timeout, image, more string) string {
		text := onboardingModule(t, acctest.Acc.Hub.Kubeconfig, reached("away", offline.Kubeconfig, image)+more) + `
output "problems" { value = { for name, text in module.fleet.problems : name => text == null } }
output "outdated" { value = { for name, text in module.fleet.outdated : name => text == null } }
`
		return strings.Replace(text, `agent_timeout = "1m"`, `agent_timeout = "`+timeout+`"`, 1)
	}
	const rollsOut, hopeless = "2m", "8s"
	if said, ok := w.Apply(config(rollsOut, "", "")); !ok {
		t.Fatal(said)
	}
	if err := offline.Kill(); err != nil {
		t.Fatal(err)
	}
	const next = `, image = "example.com/agent:next"`
	said, ok := w.Apply(config(hopeless, next, ""))
	if !ok {
		t.Errorf("a cluster that is offline fails the run: %s", acctest.Excerpt(said))
	}
	acctest.Says(t, said, `Cannot install the agent in cluster "away"`, "connection refused", `problems = { "away" = true }`, `outdated = { "away" = false }`)
	if err := offline.Restart(); err != nil {
		t.Fatal(err)
	}
	said, ok = w.Apply(config(rollsOut, next, ""))
	if !ok {
		t.Error(acctest.Excerpt(said))
	}
	acctest.Says(t, said, "1 changed", `outdated = { "away" = true }`)

	never := reached("lost", lost.Kubeconfig, `, hub_server = "https://127.0.0.1:1"`)
	for range 2 {
		began := time.Now()
		if said, ok = w.Apply(config(hopeless, next, never)); ok {
			t.Error("nobody is told of the cluster that does not join")
		}
		if took := time.Since(began); took > 3*time.Minute {
			t.Errorf("the apply takes %s", took)
		}
		acctest.Says(t, said, "The cluster lost has not joined.", "has no certificate from the hub",
			"The agent has to reach the hub at https://127.0.0.1:1", "hub_server")
		acctest.Says(t, w.MustRun("output", "-json", "problems"), `{"away":true,"lost":false}`)
		if strings.Contains(said, "has no agent") || strings.Contains(said, "The cluster away") {
			t.Error(acctest.Excerpt(said))
		}
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

// A mistake in an entry is an error of the plan that names the cluster and what is
// wrong, be it found by the module or by a resource.
func TestAccFleetRefusesMistakes(t *testing.T) {
	w := acctest.NewTerraform(t)
	for entry, want := range map[string][]string{
		`cluster_uuid = "x"`:                                              {"paris.cluster_uuid: there is no such attribute. Did you mean cluster_uid?"},
		`connection = { kubeconfig_pth = "x" }`:                           {"paris.connection.kubeconfig_pth: ", "Did you mean kubeconfig_path?"},
		`connection = "x"`:                                                {"paris.connection: this has to be an object, and is a text"},
		`lease_duration_seconds = "many"`:                                 {"paris.lease_duration_seconds: this has to be a number"},
		`connection = { host = "https://a" }, bootstrap = { ttl = "1d" }`: {`muster_klusterlet.this["paris"]`, `"1d" is not a duration`},
		`connection = { host = "https://a" }, agent = { resources = { limits = { memory = "1 GB" } } }`: {
			`muster_klusterlet.this["paris"]`, "resources.limits", "it is no quantity"},
		`connection = { host = "https://a" }, agent = { image_pull_policy = "always" }`: {`muster_klusterlet.this["paris"]`, "image_pull_policy", "IfNotPresent"},
		`taints = [{ key = "a", effect = "NoSchedule" }]`:                               {`muster_managed_cluster.this["paris"]`, "NoSelectIfNew"},
	} {
		said := w.Plan(onboardingModule(t, "/nowhere", "    paris = { "+entry+" }\n"))
		acctest.Says(t, said, append(want, "Error: ")...)
	}
	acctest.Says(t, w.Plan(onboardingModule(t, "/nowhere", "    Paris_1 = {}\n")), "The name of a cluster has up to 63", "Paris_1")
}
