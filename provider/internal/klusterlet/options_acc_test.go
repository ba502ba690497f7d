package klusterlet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// agentOptions set everything that can be set about how an agent runs.
const agentOptions = `
image_pull_policy  = "Always"
image_pull_secrets = ["registry"]
labels             = { team = "edge" }
annotations        = { "sidecar.example.com/inject" = "false" }
env                = { HTTPS_PROXY = "http://proxy.example.com:3128", GODEBUG = "x509sha1=1" }
node_selector      = { "kubernetes.io/os" = "linux" }
tolerations        = [{ operator = "Exists", effect = "NoExecute", toleration_seconds = 30 }]
affinity = {
  node_affinity = {
    required_during_scheduling_ignored_during_execution = {
      node_selector_terms = [{ match_expressions = [{ key = "kubernetes.io/arch", operator = "In", values = ["amd64", "arm64"] }] }]
    }
  }
  pod_anti_affinity = {
    preferred_during_scheduling_ignored_during_execution = [{
      weight            = 50
      pod_affinity_term = { topology_key = "kubernetes.io/hostname", label_selector = { match_labels = { app = "noisy" } } }
    }]
  }
}
resources           = { requests = { cpu = "1000m" }, limits = { memory = "1Gi" } }
host_network        = true
priority_class_name = "system-cluster-critical"
`

// Each option reaches the cluster, its drift is seen and repaired, and what is taken
// out of the configuration goes, the rights of user access first of all.
func TestAccKlusterletOptions(t *testing.T) {
	t.Parallel()
	process := acctest.DevCluster(t)
	managed := acctest.OutsiderOf(t, process)
	w := acctest.NewWorkspace(t)
	config := func(options string) string {
		return klusterletConfig(process.Kubeconfig, fmt.Sprintf(bootstrapOf, 1)+options)
	}
	const namespace = "kl-agent"
	with := config(agentOptions + "user_access = true\ntunnels = true\n")
	acctest.Says(t, w.Plan(config("tunnels = true\n")), "Error: ", "tunnels", "turn user access on, too")
	if said, ok := w.Apply(with); !ok {
		t.Fatal(said)
	}
	if said := w.Plan(with); !strings.Contains(said, "No changes.") {
		t.Errorf("the options differ from themselves: %s", said)
	}
	d := &appsv1.Deployment{}
	managed.Get(d, namespace, klusterlet.Name)
	pod := d.Spec.Template.Spec
	if !slices.Contains(pod.Containers[0].Args, "--tunnels") {
		t.Errorf("the agent takes no tunnels: %q", pod.Containers[0].Args)
	}
	if !pod.HostNetwork || len(pod.Tolerations) != 1 || pod.Affinity == nil || pod.Containers[0].Resources.Requests.Cpu().String() != "1" ||
		d.Annotations[muster.InstalledByAnnotation] != muster.InstalledByTerraform || !managed.Exists(&rbacv1.ClusterRole{}, "", klusterlet.AccessRole) {
		t.Errorf("the Deployment is %+v", d.Spec.Template)
	}
	managed.Patch(&appsv1.Deployment{}, namespace, klusterlet.Name, `{"spec":{"template":{"spec":{"tolerations":null,"nodeSelector":{"kubernetes.io/os":"x"}}}}}`)
	acctest.Says(t, w.Plan(with), "spec.template.spec.nodeSelector.kubernetes.io/os was changed", "installed = false -> true")
	if said, ok := w.Apply(with); !ok {
		t.Fatal(said)
	}
	if said := w.Plan(with); !strings.Contains(said, "No changes.") {
		t.Errorf("not all is restored: %s", said)
	}
	without := config("")
	acctest.Says(t, w.Plan(without), "- tolerations", "1 to change")
	if said, ok := w.Apply(without); !ok {
		t.Fatal(said)
	}
	d = &appsv1.Deployment{}
	managed.Get(d, namespace, klusterlet.Name)
	pod = d.Spec.Template.Spec
	if pod.HostNetwork || pod.Tolerations != nil || pod.Affinity != nil || pod.Containers[0].Env != nil || pod.NodeSelector != nil || d.Labels["team"] != "" {
		t.Errorf("what the configuration has no more is still there: %+v", pod)
	}
	if managed.Exists(&rbacv1.ClusterRole{}, "", klusterlet.AccessRole) || managed.Exists(&rbacv1.ClusterRoleBinding{}, "", klusterlet.AccessRole) {
		t.Error("the rights of user access stay when it is off")
	}
	// Rights that are there and not asked for are drift, too.
	role := &rbacv1.ClusterRole{}
	role.Name = klusterlet.AccessRole
	managed.Apply(role)
	acctest.Says(t, w.Plan(without), "ClusterRole "+klusterlet.AccessRole+" is there, and user_access is off")
	if said, ok := w.Apply(without); !ok || managed.Exists(&rbacv1.ClusterRole{}, "", klusterlet.AccessRole) {
		t.Error(said)
	}
	// The hub's own installation is not fought over.
	managed.Patch(&appsv1.Deployment{}, namespace, klusterlet.Name, `{"metadata":{"annotations":{"`+muster.InstalledByAnnotation+`":"`+muster.InstalledByImport+`"}},"spec":{"replicas":0}}`)
	said, ok := w.Apply(without)
	if ok {
		t.Error("an agent of a ClusterImport was changed")
	}
	acctest.Says(t, said, "is installed by its hub", "kubectl -n kl-agent annotate deployment klusterlet-agent muster-fleet.io/installed-by-")
	managed.Patch(&appsv1.Deployment{}, namespace, klusterlet.Name, `{"metadata":{"annotations":{"`+muster.InstalledByAnnotation+`":null}}}`)
	if said, ok := w.Destroy(); !ok || managed.Exists(&corev1.Namespace{}, "", namespace) {
		t.Error(said)
	}
}

// What no agent can have is refused while planning, at its attribute.
func TestAccKlusterletRefusesBadOptions(t *testing.T) {
	t.Parallel()
	w := acctest.NewWorkspace(t)
	said := w.Plan(klusterletConfig("/nowhere", `
args        = ["--namespace=elsewhere"]
tolerations = [{ value = "x" }]
env         = { HTTPS_PROXY = "ftp://user:hunter2@proxy" }
resources   = { requests = { memory = "2Gi" }, limits = { memory = "1Gi" } }
labels      = { app = "mine" }
`))
	acctest.Says(t, said, "Invalid args", "args[0]: Invalid value", "use the option for the namespace",
		"tolerations[0].operator", `env["HTTPS_PROXY"]`, `has the scheme "ftp"`, `resources.requests["memory"]`, "raise the limit", `labels["app"]`)
	if strings.Contains(said, "hunter2") && strings.Contains(said, "Invalid value: \"ftp") {
		t.Errorf("the message has the proxy's password: %s", said)
	}
}
