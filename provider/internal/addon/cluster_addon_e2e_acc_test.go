package addon_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// From terraform apply to an add-on that works in a cluster, another configuration of
// it, and its removal with a job: nothing is played.
func TestAccClusterAddOnFromTemplateToRemoval(t *testing.T) {
	paris := acctest.DevCluster(t)
	hub, inCluster := acctest.Someone(t), acctest.OutsiderOf(t, paris)
	w := acctest.NewWorkspace(t)
	config := func(tag string) string {
		return strings.ReplaceAll(fmt.Sprintf(`
resource "muster_managed_cluster" "x" { name = "e2e-paris" }

resource "muster_cluster_acceptance" "x" { managed_cluster = muster_managed_cluster.x.name }

resource "muster_klusterlet" "x" {
  cluster_name       = muster_cluster_acceptance.x.managed_cluster
  cluster_connection = { kubeconfig_path = %q }
}

resource "muster_addon_deployment_config" "x" {
  namespace            = "default"
  name                 = "e2e"
  customized_variables = { TAG = "TAG_VALUE" }
}

resource "muster_addon_template" "x" {
  name       = "e2e"
  addon_name = "e2e"
  objects = [
    {
      apiVersion = "apps/v1", kind = "Deployment", metadata = { name = "agent", namespace = "elsewhere" }
      spec = {
        selector = { matchLabels = { app = "agent" } }
        template = {
          metadata = { labels = { app = "agent" } }
          spec     = { containers = [{ name = "agent", image = "example.com/agent:{{TAG}}", args = ["{{CLUSTER_NAME}}"] }] }
        }
      }
    },
    {
      apiVersion = "batch/v1", kind = "Job"
      metadata = { name = "bye", namespace = "elsewhere", annotations = { "addon.open-cluster-management.io/addon-pre-delete" = "" } }
      spec     = { template = { spec = { restartPolicy = "Never", containers = [{ name = "bye", image = "example.com/agent:{{TAG}}" }] } } }
    },
  ]
  registration = [{ kube_client = {} }]
}

resource "muster_addon" "x" {
  name              = "e2e"
  template          = muster_addon_template.x.name
  supported_configs = [{ resource = "addondeploymentconfigs" }]
}

resource "muster_cluster_addon" "x" {
  managed_cluster = muster_klusterlet.x.cluster_name
  name            = muster_addon.x.name
  configs = [{
    resource  = "addondeploymentconfigs"
    namespace = muster_addon_deployment_config.x.namespace
    name      = muster_addon_deployment_config.x.name
  }]
  wait     = { rolled_out = true, available = true }
  triggers = muster_addon_deployment_config.x.customized_variables
  timeouts {
    create = "90s"
    update = "90s"
    delete = "90s"
  }
  lifecycle {
    postcondition {
      condition     = self.ready
      error_message = "not ready"
    }
  }
}

output "x" { value = muster_cluster_addon.x }
`, paris.Kubeconfig), "TAG_VALUE", tag)
	}
	agent := func(tag string) {
		t.Helper()
		deployment := &appsv1.Deployment{}
		inCluster.Get(deployment, addon.DefaultInstallNamespace, "agent")
		if c := deployment.Spec.Template.Spec.Containers[0]; c.Image != "example.com/agent:"+tag || c.Args[0] != "e2e-paris" {
			t.Errorf("after the apply of %s the cluster has %s %v", tag, c.Image, c.Args)
		}
	}
	if said, ok := w.Apply(config("v1")); !ok || strings.Contains(said, "Warning") {
		t.Fatal(acctest.Excerpt(said))
	}
	agent("v1")
	acctest.Says(t, w.MustRun("output", "-json"), `"ready": true`, `"agent_namespace": "`+addon.DefaultInstallNamespace+`"`, `"user": "system:open-cluster-management:cluster:e2e-paris:addon:e2e:agent:e2e-agent"`)
	inCluster.Wait(&corev1.Secret{}, addon.DefaultInstallNamespace, "e2e-hub-kubeconfig", func() bool { return true })
	// Nothing of the add-on in the cluster changes, and the apply waits for the change all
	// the same.
	if said, ok := w.Apply(config("v2")); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	agent("v2")
	acctest.Says(t, w.Plan(config("v2")), "No changes.")
	if said, ok := w.Destroy(); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	if hub.Exists(&v1alpha1.ManagedClusterAddOn{}, "e2e-paris", "e2e") || inCluster.Exists(&appsv1.Deployment{}, addon.DefaultInstallNamespace, "agent") {
		t.Error("the add-on is still there after it was destroyed")
	}
}
