package klusterlet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const klusterletAddress = "muster_klusterlet.test"

// klusterletConfig installs an agent that needs nothing of the hub.
func klusterletConfig(kubeconfig, body string) string {
	return fmt.Sprintf(`
resource "muster_klusterlet" "test" {
  cluster_name       = "kl"
  namespace          = "kl-agent"
  cluster_connection = { kubeconfig_path = %q }
  wait_for_bootstrap = false
%s
}
`, kubeconfig, body)
}

// bootstrapOf is a kubeconfig of a hub that does not answer.
const bootstrapOf = `
  bootstrap_kubeconfig_wo = jsonencode({
    apiVersion = "v1", kind = "Config", current-context = "bootstrap"
    clusters = [{ name = "hub", cluster = { server = "https://127.0.0.1:1" } }]
    users    = [{ name = "bootstrap", user = { token = "s3cret" } }]
    contexts = [{ name = "bootstrap", context = { cluster = "hub", user = "bootstrap" } }]
  })
  bootstrap_kubeconfig_wo_version = %d
`

func TestAccKlusterlet(t *testing.T) {
	t.Parallel()
	process := acctest.DevCluster(t)
	managed := acctest.OutsiderOf(t, process)
	config := func(version int, body string) string {
		return klusterletConfig(process.Kubeconfig, fmt.Sprintf(bootstrapOf, version)+body)
	}
	acctest.Run(t,
		resource.TestStep{
			Config: config(1, ""),
			Check: func(s *terraform.State) error {
				secret := &corev1.Secret{}
				managed.Get(secret, "kl-agent", cluster.BootstrapSecret)
				if !strings.Contains(string(secret.Data[cluster.KubeconfigKey]), "s3cret") {
					return fmt.Errorf("the bootstrap kubeconfig did not arrive")
				}
				if strings.Contains(fmt.Sprint(s.RootModule().Resources[klusterletAddress].Primary.Attributes), "s3cret") {
					return fmt.Errorf("the token is in the state")
				}
				return nil
			},
		},
		resource.TestStep{
			ResourceName: klusterletAddress, ImportState: true, ImportStateId: "kl-agent/kl@" + process.Kubeconfig,
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "cluster_name", ImportStateVerifyIgnore: []string{"wait_for_bootstrap", "ready"},
		},
		// Objects that are gone or changed come back.
		resource.TestStep{
			PreConfig: func() {
				managed.Remove(&rbacv1.ClusterRoleBinding{}, "", klusterlet.WorkRole)
				managed.Patch(&appsv1.Deployment{}, "kl-agent", klusterlet.Name, `{"spec":{"replicas":0}}`)
			},
			Config: config(1, ""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(klusterletAddress, plancheck.ResourceActionUpdate),
				plancheck.ExpectKnownValue(klusterletAddress, tfjsonpath.New("installed"), knownvalue.Bool(true)),
			}},
			Check: func(*terraform.State) error {
				deployment := &appsv1.Deployment{}
				managed.Get(deployment, "kl-agent", klusterlet.Name)
				if *deployment.Spec.Replicas != 1 || !managed.Exists(&rbacv1.ClusterRoleBinding{}, "", klusterlet.WorkRole) {
					return fmt.Errorf("the agent was not repaired")
				}
				return nil
			},
		},
		resource.TestStep{
			Config: config(2, "image = \"example.com/agent:v2\"\n  args = [\"-v=2\"]"),
			Check: func(*terraform.State) error {
				deployment := &appsv1.Deployment{}
				managed.Get(deployment, "kl-agent", klusterlet.Name)
				if c := deployment.Spec.Template.Spec.Containers[0]; c.Image != "example.com/agent:v2" || c.Args[len(c.Args)-1] != "-v=2" {
					return fmt.Errorf("got %s %v", c.Image, c.Args)
				}
				return nil
			},
		},
		resource.TestStep{
			ResourceName: klusterletAddress, ImportState: true, ImportStateId: "kl-agent/kl@" + process.Kubeconfig,
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "cluster_name", ImportStateVerifyIgnore: []string{"wait_for_bootstrap", "ready"},
		},
		resource.TestStep{
			PreConfig: func() { managed.Remove(&corev1.Namespace{}, "", "kl-agent") },
			Config:    config(2, ""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(klusterletAddress, plancheck.ResourceActionCreate),
			}},
		},
	)
	for _, gone := range []bool{
		managed.Exists(&corev1.Namespace{}, "", "kl-agent"),
		managed.Exists(&rbacv1.ClusterRole{}, "", klusterlet.WorkRole),
		managed.Exists(&rbacv1.ClusterRoleBinding{}, "", klusterlet.RegistrationRole),
	} {
		if gone {
			t.Error("destroying has left something behind")
		}
	}
}

// Only the agent can remove what the hub's works applied, so it stays until
// they are gone.
func TestAccKlusterletWaitsForWorks(t *testing.T) {
	t.Parallel()
	process := acctest.DevCluster(t)
	managed := acctest.OutsiderOf(t, process)
	config := func(timeout string) string {
		return klusterletConfig(process.Kubeconfig, fmt.Sprintf(bootstrapOf, 1)+fmt.Sprintf("timeouts { delete = %q }\n", timeout))
	}
	name := work.AppliedManifestWorkName(work.HubHash("https://127.0.0.1:1"), "web")
	acctest.Run(t,
		resource.TestStep{Config: config("2s")},
		resource.TestStep{
			PreConfig: func() {
				waitForKind(managed, &workv1.AppliedManifestWorkList{})
				for _, hash := range []string{work.HubHash("https://127.0.0.1:1"), work.HubHash("https://another.hub")} {
					object := &workv1.AppliedManifestWork{}
					object.Name = work.AppliedManifestWorkName(hash, "web")
					object.Spec = workv1.AppliedManifestWorkSpec{HubHash: hash, ManifestWorkName: "web"}
					managed.Apply(object)
				}
			},
			Config:      acctest.SetConfig("kl-filler", ""),
			ExpectError: regexp.MustCompile(`(?s)Works of the hub are left in cluster "kl".*web, with 0 objects.*kubectl get manifestworks -n kl.*keep_works_on_destroy.*terraform\s+apply\s+-target`),
		},
		resource.TestStep{Config: config("1m")},
		resource.TestStep{
			PreConfig: func() { managed.Remove(&workv1.AppliedManifestWork{}, "", name) },
			Config:    acctest.SetConfig("kl-filler", ""),
		},
	)
	managed.Remove(&workv1.AppliedManifestWork{}, "", work.AppliedManifestWorkName(work.HubHash("https://another.hub"), "web"))
}

// A plan names the works for which the removal of the agent would wait: those
// that nobody deletes with it.
func TestAccKlusterletPlanNamesTheWorksOfOthers(t *testing.T) {
	t.Parallel()
	process := acctest.DevCluster(t)
	w, o := acctest.NewWorkspace(t), acctest.Someone(t)
	o.Namespace("kl")
	for name, labels := range map[string]map[string]string{"by-hand": nil, "of-a-set": {work.ReplicaSetLabel: "shop.web"}, "of-an-add-on": {cluster.AddOnNameLabel: "proxy"}} {
		object := &workv1.ManifestWork{}
		object.Namespace, object.Name, object.Labels = "kl", name, labels
		object.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}`)}}}
		o.Apply(object)
		t.Cleanup(func() { o.Remove(&workv1.ManifestWork{}, "kl", name) })
	}
	config := func(body string) string {
		return klusterletConfig(process.Kubeconfig, fmt.Sprintf(bootstrapOf, 1)+body) + `
resource "muster_manifest_work" "here" {
  managed_cluster = "kl"
  name            = "of-terraform"
  objects         = [{ apiVersion = "v1", kind = "Namespace", metadata = { name = "x" } }]
}
`
	}
	if said, ok := w.Apply(config("")); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	const warning = `Works will hold up the removal of the agent from cluster "kl"`
	plan := func(args ...string) string {
		return w.MustRun(append([]string{"plan", "-no-color", "-input=false"}, args...)...)
	}
	if said := plan(); strings.Contains(said, warning) {
		t.Errorf("it is not about to go: %s", said)
	}
	said := plan("-destroy")
	acctest.Says(t, said, warning, "by-hand The agent is removed only when", "terraform apply -target=ADDRESS")
	for _, other := range []string{"of-a-set", "of-an-add-on", "of-terraform The agent"} {
		if strings.Contains(said[strings.Index(said, warning):], other) {
			t.Errorf("%s is not by hand: %s", other, said)
		}
	}
	if said, ok := w.Apply(config("keep_works_on_destroy = true\n")); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	if said := plan("-destroy"); strings.Contains(said, warning) {
		t.Errorf("nobody would wait: %s", said)
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

// A managed cluster that is away does not keep anybody from planning.
func TestAccKlusterletPlanWithoutItsCluster(t *testing.T) {
	t.Parallel()
	process := acctest.DevCluster(t)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	point := func(at string) {
		raw, err := os.ReadFile(process.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(kubeconfig, []byte(strings.ReplaceAll(string(raw), process.URL, at)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	point(process.URL)
	config := klusterletConfig(kubeconfig, fmt.Sprintf(bootstrapOf, 1))
	acctest.Run(t,
		resource.TestStep{Config: config},
		resource.TestStep{PreConfig: func() { point("https://127.0.0.1:1") }, Config: config, PlanOnly: true},
		resource.TestStep{PreConfig: func() { point(process.URL) }, Config: config, PlanOnly: true},
	)
}

// The whole way of a cluster into the fleet and out again, with a real agent.
func TestAccOnboarding(t *testing.T) {
	t.Parallel()
	process := acctest.DevCluster(t)
	config := acctest.AcceptanceConfig("onboard", "") + fmt.Sprintf(`
ephemeral "muster_bootstrap_kubeconfig" "test" {
  managed_cluster = muster_managed_cluster.test.name
}
resource "muster_klusterlet" "test" {
  cluster_name                    = muster_managed_cluster.test.name
  cluster_connection              = { kubeconfig_path = %q }
  bootstrap_kubeconfig_wo         = ephemeral.muster_bootstrap_kubeconfig.test.kubeconfig
  bootstrap_kubeconfig_wo_version = 1
}
resource "muster_cluster_registration" "test" {
  managed_cluster = muster_klusterlet.test.cluster_name
  depends_on      = [muster_cluster_acceptance.test]
}
`, process.Kubeconfig)
	withWork := config + `
resource "muster_manifest_work" "test" {
  managed_cluster = muster_cluster_registration.test.managed_cluster
  name            = "web"
` + acctest.AsJSON + `
  wait = { conditions = ["Applied", "Available"] }
}
data "muster_managed_cluster" "test" {
  name = muster_cluster_registration.test.managed_cluster
}
`
	managed := acctest.OutsiderOf(t, process)
	const data = "data.muster_managed_cluster.test"
	acctest.RunTerraform(t,
		resource.TestStep{
			Config: withWork,
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("ready"), knownvalue.Bool(true)),
				statecheck.ExpectKnownValue(data, tfjsonpath.New("joined"), knownvalue.Bool(true)),
				statecheck.ExpectKnownValue(data, tfjsonpath.New("available"), knownvalue.StringExact("True")),
				statecheck.ExpectKnownValue(data, tfjsonpath.New("kubernetes_version"), knownvalue.NotNull()),
			},
			Check: func(*terraform.State) error {
				if !managed.Exists(&corev1.ConfigMap{}, "shop", "settings") {
					return fmt.Errorf("the work is not in the cluster")
				}
				return nil
			},
		},
		resource.TestStep{
			Config: config,
			Check: func(*terraform.State) error {
				if managed.Exists(&corev1.ConfigMap{}, "shop", "settings") {
					return fmt.Errorf("the work is still in the cluster")
				}
				return nil
			},
		},
	)
	if managed.Exists(&corev1.Namespace{}, "", cluster.AgentNamespace) || acctest.Someone(t).Exists(&clusterv1.ManagedCluster{}, "", "onboard") {
		t.Error("the cluster is not detached cleanly")
	}
}

func TestAccKlusterletBadInput(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ body, want string }{
		"no connection":      {`cluster_connection = { token = "x" }`, `(?s)kubeconfig_path.*kubeconfig.*host`},
		"not a kubeconfig":   {`cluster_connection = { host = "https://c1" }` + "\n" + `bootstrap_kubeconfig_wo = "rubbish"` + "\n" + `bootstrap_kubeconfig_wo_version = 1`, `not a kubeconfig`},
		"no version":         {`cluster_connection = { host = "https://c1" }` + "\n" + `bootstrap_kubeconfig_wo = "x"`, `bootstrap_kubeconfig_wo_version`},
		"shared namespace":   {`cluster_connection = { host = "https://c1" }` + "\n" + `namespace = "kube-system"`, `(?s)namespace.*kube-system`},
		"bad cluster's host": {`cluster_connection = { host = "c1" }`, `"c1" is not a URL`},
	} {
		t.Run(name, func(t *testing.T) {
			acctest.Run(t, resource.TestStep{
				Config:      "resource \"muster_klusterlet\" \"test\" {\n  cluster_name = \"kl\"\n" + test.body + "\n}\n",
				PlanOnly:    true,
				ExpectError: regexp.MustCompile(test.want),
			})
		})
	}
}
