package addon_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

func withDeploymentConfig(namespace, body string) string {
	return "resource \"muster_addon_deployment_config\" \"test\" {\n  namespace = \"" + namespace + "\"\n  name = \"settings\"\n" + body + "\n}\n"
}

// all sets every attribute of a deployment configuration.
const all = `
  customized_variables = { IMAGE_TAG = "v1", empty = "" }
  node_placement = {
    node_selector = { "kubernetes.io/os" = "linux" }
    tolerations   = [{ key = "example.com/edge", operator = "Exists", effect = "NoExecute", toleration_seconds = 30 }]
  }
  registries = [{ source = "quay.io/example", mirror = "registry.example.com/mirror" }, { mirror = "registry.example.com" }]
  proxy      = { http = "http://proxy.example.com:3128", https = "http://proxy.example.com:3128", no_proxy = [".svc", "10.0.0.0/8"], ca_bundle = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n" }
  agent_install_namespace = "agents"
  resource_requirements = [
    { container_id = "*:*:*", resources = { requests = { cpu = "0.5" } } },
    { container_id = "deployments:web:*", resources = { limits = { memory = "1024Mi" }, requests = { memory = "64Mi" } } },
  ]`

// What a configuration says arrives on the hub, means the same when it is read back,
// and what others add to it goes.
func TestAccDeploymentConfigSaysAll(t *testing.T) {
	someone := acctest.Someone(t)
	someone.Namespace("adc-all")
	w := acctest.NewWorkspace(t)
	config := withDeploymentConfig("adc-all", all)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, w.Plan(config), "No changes.")
	object := &v1alpha1.AddOnDeploymentConfig{}
	someone.Get(object, "adc-all", "settings")
	spec := object.Spec
	if len(spec.CustomizedVariables) != 2 || spec.NodePlacement.NodeSelector["kubernetes.io/os"] != "linux" || *spec.NodePlacement.Tolerations[0].TolerationSeconds != 30 ||
		len(spec.Registries) != 2 || spec.ProxyConfig.NoProxy != ".svc,10.0.0.0/8" || !strings.Contains(string(spec.ProxyConfig.CABundle), "BEGIN CERTIFICATE") || *spec.AgentInstallNamespace != "agents" {
		t.Errorf("on the hub: %+v", spec)
	}
	if got := spec.ResourceRequirements[0].Resources.Requests.Cpu(); spec.ResourceRequirements[0].ContainerID != "*:*:*" || got.Cmp(resource.MustParse("500m")) != 0 {
		t.Errorf("on the hub, the first requirements are %+v", spec.ResourceRequirements[0])
	}
	// The last one that fits counts, so their order has to arrive, too.
	swapped := withDeploymentConfig("adc-all", strings.Replace(strings.Replace(all, `"*:*:*"`, `"pods:x:y"`, 1), `"deployments:web:*"`, `"*:*:*"`, 1))
	if said, ok := w.Apply(swapped); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, w.Plan(swapped), "No changes.")
	bare := withDeploymentConfig("adc-all", "")
	if said, ok := w.Apply(bare); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	someone.Patch(&v1alpha1.AddOnDeploymentConfig{}, "adc-all", "settings",
		`{"spec":{"agentInstallNamespace":"theirs","proxyConfig":{"httpProxy":"http://theirs"},"registries":[{"mirror":"theirs"}],"customizedVariables":[{"name":"theirs","value":"x"}]}}`)
	acctest.Says(t, w.Plan(bare), `"theirs" -> "open-cluster-management-agent-addon"`, `http://theirs`, `mirror = "theirs" -> null`, `- "theirs" = "x"`)
	if said, ok := w.Apply(bare); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	object = &v1alpha1.AddOnDeploymentConfig{}
	someone.Get(object, "adc-all", "settings")
	if spec := object.Spec; len(spec.Registries)+len(spec.CustomizedVariables)+len(spec.ProxyConfig.HTTPProxy) > 0 || *spec.AgentInstallNamespace != addon.DefaultInstallNamespace {
		t.Errorf("left on the hub: %+v", spec)
	}
	acctest.Says(t, w.Plan(bare), "No changes.")
}

// The empty namespace keeps those of a template, and leaving it out moves them all: the
// two reach the hub as two.
func TestAccEmptyNamespaceIsNotNone(t *testing.T) {
	someone := acctest.Someone(t)
	someone.Namespace("adc-empty")
	w := acctest.NewWorkspace(t)
	config := withDeploymentConfig("adc-empty", `  agent_install_namespace = ""`)
	live := func() string {
		t.Helper()
		object := &v1alpha1.AddOnDeploymentConfig{}
		someone.Get(object, "adc-empty", "settings")
		text, err := json.Marshal(object.Spec)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, step := range []struct{ config, want string }{
		{config, `{"agentInstallNamespace":""}`},
		{withDeploymentConfig("adc-empty", ""), `{"agentInstallNamespace":"open-cluster-management-agent-addon"}`},
		{config, `{"agentInstallNamespace":""}`},
	} {
		if said, ok := w.Apply(step.config); !ok {
			t.Fatal(acctest.Excerpt(said))
		}
		acctest.Says(t, w.Plan(step.config), "No changes.")
		if got := live(); got != step.want {
			t.Errorf("on the hub: %s, want %s", got, step.want)
		}
	}
	imported := acctest.NewWorkspace(t)
	acctest.Says(t, imported.Plan("import {\n  to = muster_addon_deployment_config.test\n  id = \"adc-empty/settings\"\n}\n"+config), "1 to import, 0 to add, 0 to change")
}

// Each mistake is told while planning, with what to write.
func TestAccDeploymentConfigMistakes(t *testing.T) {
	acctest.Someone(t).Namespace("adc-wrong")
	w := acctest.NewWorkspace(t)
	for _, x := range []struct{ body, says string }{
		{`  customized_variables = { "{{TAG}}" = "x" }`, `Write "TAG"`},
		{`  customized_variables = { "image-tag" = "x" }`, `"image-tag" has to be the name of a variable`},
		{`  customized_variables = { "1A" = "x" }`, "without a digit in front"},
		{`  customized_variables = { BIG = join("", [for i in range(205) : "xxxxx"]) }`, "has 1025 bytes, but it takes 0 to 1024"},
		{`  customized_variables = { A = null }`, "is null"},
		{`  registries = [{ mirror = "https://registry.example.com" }]`, `Write "registry.example.com"`},
		{`  registries = [{ source = "", mirror = "x" }]`, "without spaces"},
		{`  proxy = { http = "proxy:3128" }`, "is not a URL"},
		{`  proxy = { no_proxy = [".svc,10.0.0.0/8"] }`, "Write several as several elements of the list"},
		{`  proxy = { ca_bundle = "YQ==" }`, "is not PEM"},
		{`  agent_install_namespace = "My Agents"`, `Try "my-agents"`},
		{`  resource_requirements = [{ container_id = "deployment:web:*", resources = {} }]`, "The kinds are deployments, daemonsets"},
		{`  resource_requirements = [{ container_id = "*:*:*", resources = { requests = { cpu = "2" }, limits = { cpu = "1" } } }]`, `resource_requirements[0].resources.requests["cpu"]`},
		{`  resource_requirements = [{ container_id = "*:*:*", resources = {} }, { container_id = "*:*:*", resources = {} }]`, "Make one entry of them"},
		{`  node_placement = { tolerations = [{ operator = "Exist" }] }`, "node_placement.tolerations[0].operator"},
		{`  node_placement = { node_selector = { "a b" = "c" } }`, `node_placement.node_selector`},
		{`  node_selector = {}`, "Unsupported argument"},
	} {
		acctest.Says(t, w.Plan(withDeploymentConfig("adc-wrong", x.body)), x.says)
	}
	said, ok := w.Apply(withDeploymentConfig("adc-nowhere", ""))
	if ok {
		t.Error("a namespace that does not exist is no error")
	}
	acctest.Says(t, said, `namespaces "adc-nowhere" not found`, "muster_namespace")
}

// A configuration that an add-on uses stays until it does no more: it would be needed
// to remove the add-on.
func TestAccDeploymentConfigStaysWhileItIsUsed(t *testing.T) {
	someone := acctest.Someone(t)
	someone.Namespace("adc-used")
	w := acctest.NewWorkspace(t)
	config := withDeploymentConfig("adc-used", "  timeouts { delete = \"2s\" }")
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	user := &v1alpha1.ManagedClusterAddOn{Spec: v1alpha1.ManagedClusterAddOnSpec{Configs: []v1alpha1.AddOnConfig{{
		ConfigGroupResource: v1alpha1.ConfigGroupResource{Group: addon.GroupName, Resource: addon.DeploymentConfigResource},
		ConfigReferent:      v1alpha1.ConfigReferent{Namespace: "adc-used", Name: "settings"},
	}}}}
	user.Namespace, user.Name = "adc-used", "proxy"
	someone.Apply(user)
	said, ok := w.Destroy()
	if ok || !someone.Exists(&v1alpha1.AddOnDeploymentConfig{}, "adc-used", "settings") {
		t.Error("a configuration that is in use was destroyed")
	}
	acctest.Says(t, said, `Still in use: deployment configuration "adc-used/settings"`, "proxy in the cluster adc-used", "Remove it from their configs")
	someone.Remove(&v1alpha1.ManagedClusterAddOn{}, "adc-used", "proxy")
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}
