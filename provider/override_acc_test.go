package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// overriding has three clusters, two of them with a region.
const overriding = `
resource "muster_managed_cluster_set" "override" { name = "override" }
resource "muster_managed_cluster_set_binding" "override" {
  namespace   = "override-shop"
  cluster_set = muster_managed_cluster_set.override.name
}
resource "muster_managed_cluster" "override" {
  for_each    = { "override-a" = { region = "eu" }, "override-b" = { region = "us", env = "prod" }, "override-c" = {} }
  name        = each.key
  labels      = each.value
  cluster_set = muster_managed_cluster_set.override.name
}
resource "muster_cluster_acceptance" "override" {
  for_each        = muster_managed_cluster.override
  managed_cluster = each.key
}
resource "muster_placement" "override" {
  namespace    = muster_managed_cluster_set_binding.override.namespace
  name         = "regions"
  cluster_sets = ["override"]
  predicates   = [{ label_selector = { match_expressions = [{ key = "region", operator = "Exists" }] } }]
  tolerations  = [{ operator = "Exists" }]
  depends_on   = [muster_cluster_acceptance.override]
}
`

// Each cluster gets its own objects; what a cluster lacks is said by the plan, and what is
// mistyped by the attribute that it is about.
func TestAccObjectsDifferFromClusterToCluster(t *testing.T) {
	w := acctest.NewWorkspace(t)
	o := acctest.Someone(t)
	o.Namespace("override-shop")
	apply := func(config string) {
		t.Helper()
		if said, ok := w.Apply(config); !ok {
			t.Fatal(acctest.Excerpt(said))
		}
	}
	set := func(body string) string {
		return overriding + fmt.Sprintf(`
resource "muster_manifest_work_replica_set" "override" {
  namespace  = "override-shop"
  name       = "web"
  placements = [{ name = muster_placement.override.name }]
  manifests  = ["{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: shop}, data: {at: '{{REGION}}'}}"]
  %s
}
`, body)
	}
	const region = `values = [{ name = "REGION", label = "region" }]`
	const patched = region + `
  overrides = [{
    label_selector = { match_labels = { env = "prod" } }
    object         = { kind = "ConfigMap", name = "web" }
    type           = "Merge"
    patch          = jsonencode({ data = { size = "large <{{CLUSTER_NAME}}>" } })
  }]`
	content := func(cluster string, texts ...string) {
		t.Helper()
		testkit.Eventually(t, func() error {
			ctx, cancel := o.Context()
			defer cancel()
			list := &workv1.ManifestWorkList{}
			if err := o.Client.List(ctx, list, kube.ListOptions{Namespace: cluster}); err != nil ||
				len(list.Items) != 1 {
				return fmt.Errorf("%s has %d works (%v)", cluster, len(list.Items), err)
			}
			raw := string(list.Items[0].Spec.Workload.Manifests[0].Raw)
			for _, text := range texts {
				if want, ok := strings.CutPrefix(text, "!"); strings.Contains(raw, want) == ok {
					return fmt.Errorf("%s has %s, want %s", cluster, raw, text)
				}
			}
			return nil
		})
	}
	apply(overriding)
	apply(set(region))
	content("override-a", `"at":"eu"`)
	content("override-b", `"at":"us"`)
	acctest.Says(t, w.Plan(set(region)), "No changes")

	apply(set(patched))
	content("override-a", `"at":"eu"`, "!large")
	content("override-b", `"at":"us"`, `large \u003coverride-b\u003e`)
	acctest.Says(t, w.Plan(set(patched)), "No changes")

	// What others make of it is seen, and undone.
	o.Patch(
		&workv1alpha1.ManifestWorkReplicaSet{},
		"override-shop",
		"web",
		`{"metadata":{"annotations":{"`+muster.OverrideAnnotation+`":"{\"values\":[{\"name\":\"REGION\",`+
			`\"claim\":\"region\"}]}"}}}`,
	)
	acctest.Says(t, w.Plan(set(patched)), `claim = "region" -> null`, "1 to change")
	apply(strings.Replace(set(patched), "placements = [", "force_conflicts = true\n  placements = [", 1))
	content("override-b", `large \u003coverride-b\u003e`)

	for name, x := range map[string]struct{ body, says string }{
		"a placeholder without a value": {
			`values = [{ name = "REGON", label = "region" }]`,
			"{{REGION}} is none of the values (CLUSTER_NAME, CLUSTER_URL, REGON)",
		},
		"two sources": {
			`values = [{ name = "REGION", label = "region", claim = "region" }]`,
			"takes exactly one of label, claim",
		},
		"an expression": {
			`values = [{ name = "REGION", expression = "managedCluster." }]`,
			"values[0].expression (REGION): compilation failed",
		},
		"a name in lower case": {`values = [{ name = "region", label = "region" }]`, "has to be upper-case letters"},
		"a patch that is no JSON": {region + `
  overrides = [{ object = { kind = "ConfigMap" }, type = "Merge", patch = "data: {}" }]`, "Write it with jsonencode"},
		"no such object": {region + `
  overrides = [{ object = { kind = "Deployment" }, type = "Merge", patch = "{}" }]`,
			"there is no such manifest (kind Deployment)"},
		"by annotation": {`annotations = { "muster-fleet.io/override" = "web" }`, "use values and overrides"},
	} {
		t.Run(name, func(t *testing.T) { acctest.Says(t, w.Plan(set(x.body)), "Error: ", x.says) })
	}

	// What one cluster gets is there to read before there is a replica set.
	rendered := func(cluster string) string {
		return overriding + `
data "muster_rendered_manifests" "override" {
  managed_cluster = muster_managed_cluster.override["` + cluster + `"].name
  manifests = [
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: shop}, data: {at: '{{REGION}}'}}"
  ]
  ` + patched + `
}
output "rendered" { value = nonsensitive(jsondecode(data.muster_rendered_manifests.override.rendered[0]).data) }
`
	}
	acctest.Says(t, w.Plan(rendered("override-b")), `at = "us"`, `size = "large <override-b>"`)
	acctest.Says(t, w.Plan(rendered("override-c")), "Error: A cluster without its own content",
		`The cluster "override-c" would get nothing: the value REGION: the cluster has no value`)

	// A cluster that comes in without the value is named before anything is written.
	everywhere := strings.Replace(
		set(patched),
		`predicates   = [{ label_selector = { match_expressions = [{ key = "region", `+
			`operator = "Exists" }] } }]`,
		"",
		1,
	)
	apply(strings.Replace(everywhere, `label = "region"`, `label = "region", default = "mars"`, 1))
	content("override-c", `"at":"mars"`)
	acctest.Says(t, w.Plan(everywhere), "Error: Clusters without their own content", "1 of 3 selected clusters",
		"override-c: the value REGION: the cluster has no value: its ManagedCluster has no label region")
	o.Patch(&clusterv1.ManagedCluster{}, "", "override-c", `{"metadata":{"labels":{"region":"moon"}}}`)
	content("override-c", `"at":"moon"`)

	// A number, and a name, that are filled in are no mistake of the plan.
	deployment := func(replicas string) string {
		return strings.Replace(
			set(region),
			`manifests  = ["`,
			`manifests  = ["{apiVersion: apps/v1, kind: Deployment, metadata: `+
				`{name: 'web-{{CLUSTER_NAME}}', namespace: shop}, spec: `+
				`{replicas: '`+replicas+`', selector: {matchLabels: {a: b}}, `+
				`template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: 'c:1'}]}}}}", "`,
			1,
		)
	}
	acctest.Says(t, w.Plan(deployment("two")), "No cluster would accept", "spec.replicas has to be a whole number")
	apply(strings.Replace(deployment("{{SIZE}}"), region, `values = [
    { name = "REGION", label = "region" },
    { name = "SIZE", expression = "managedCluster.metadata.labels['region'] == 'us' ? 3 : 1" },
  ]`, 1))
	content("override-a", `"replicas":1`, `"name":"web-override-a"`)
	content("override-b", `"replicas":3`)

	// Without values, the objects are as they are written.
	apply(set(""))
	content("override-a", `"at":"{{REGION}}"`)
	acctest.Says(t, w.Plan(set("")), "No changes")
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

// What an add-on's template puts into a cluster differs from cluster to cluster, too.
func TestAccTemplatesDifferFromClusterToCluster(t *testing.T) {
	w := acctest.NewWorkspace(t)
	o := acctest.Someone(t)
	o.Namespace("agents-shop")
	template := func(body string) string {
		return fmt.Sprintf(`
resource "muster_addon_template" "override" {
  name       = "agents-logger"
  addon_name = "agents-logger"
  manifests  = [<<-EOT
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: logger, namespace: logging}
    spec:
      replicas: "{{SIZE}}"
      selector: {matchLabels: {a: b}}
      template:
        metadata: {labels: {a: b}, annotations: {at: "{{REGION}} {{CLUSTER_NAME}} {{LEVEL}}"}}
        spec: {containers: [{name: c, image: "c:1"}]}
    EOT
  ]
  %s
}
`, body)
	}
	const region = `values = [
    { name = "REGION", label = "region" },
    { name = "SIZE", expression = "managedCluster.metadata.labels[?'region'].orValue('') == 'us' ? 3 : 1" },
  ]`
	const patched = region + `
  overrides = [{
    label_selector = { match_labels = { env = "prod" } }
    object         = { kind = "Deployment", name = "logger" }
    type           = "Strategic"
    patch = jsonencode({
      spec = { template = { spec = { containers = [{ name = "c", image = "c:{{REGION}}" }] } } }
    })
  }]`
	const addOn = `
resource "muster_addon" "override" {
  name       = "agents-logger"
  template   = muster_addon_template.override.name
  placements = [{ namespace = "agents-shop", name = muster_placement.agents.name }]
}
`
	fleet := strings.ReplaceAll(overriding, "override", "agents")
	config := func(body string) string { return fleet + template(body) + addOn }
	apply := func(config string) {
		t.Helper()
		if said, ok := w.Apply(config); !ok {
			t.Fatal(acctest.Excerpt(said))
		}
	}
	content := func(cluster string, texts ...string) {
		t.Helper()
		testkit.Eventually(t, func() error {
			ctx, cancel := o.Context()
			defer cancel()
			work := &workv1.ManifestWork{}
			if err := o.Client.Get(ctx, work, cluster, "addon-agents-logger-deploy-0"); err != nil {
				return err
			}
			raw := string(work.Spec.Workload.Manifests[0].Raw)
			for _, text := range texts {
				if !strings.Contains(raw, text) {
					return fmt.Errorf("%s has %s, want %s", cluster, raw, text)
				}
			}
			return nil
		})
	}
	apply(config(region))
	content("agents-a", `"at":"eu agents-a "`, `"replicas":1`, `"image":"c:1"`)
	content("agents-b", `"at":"us agents-b "`, `"replicas":3`)
	acctest.Says(t, w.Plan(config(region)), "No changes")
	apply(config(patched))
	content("agents-a", `"image":"c:1"`)
	content("agents-b", `"image":"c:us"`)
	acctest.Says(t, w.Plan(config(patched)), "No changes")

	// What others make of it is seen.
	o.Patch(&addonv1alpha1.AddOnTemplate{}, "", "agents-logger",
		`{"metadata":{"annotations":{"`+muster.OverrideAnnotation+`":"{\"values\":[{\"name\":\"REGION\",`+
			`\"claim\":\"region\",\"default\":\"x\"},{\"name\":\"SIZE\",\"expression\":\"1\"}]}"}}}`)
	acctest.Says(t, w.Plan(config(patched)), `claim      = "region" -> null`, "1 to change")
	apply(strings.Replace(config(patched), "addon_name =", "force_conflicts = true\n  addon_name =", 1))
	content("agents-b", `"image":"c:us"`)
	apply(config(patched))

	for name, x := range map[string]struct{ body, says string }{
		"a text where a number belongs": {"", "spec.replicas"},
		"two sources": {
			`values = [{ name = "REGION", label = "region", claim = "region" }]`, "takes exactly one of label, claim",
		},
		"no such object": {region + `
  overrides = [{ object = { kind = "DaemonSet" }, type = "Merge", patch = "{}" }]`,
			"there is no such manifest (kind DaemonSet): the manifests are Deployment logger"},
		"another object": {region + `
  overrides = [{ object = { kind = "Deployment" }, type = "Merge", patch = "{\"metadata\":{\"name\":\"x\"}}" }]`,
			"change metadata.name of the Deployment logger"},
		"by annotation": {`annotations = { "muster-fleet.io/override" = "web" }`, "use values and overrides"},
		"a cluster without the value": {strings.Replace(region, `label = "region"`, `label = "zone"`, 1),
			"2 of 2 selected clusters"},
	} {
		t.Run(name, func(t *testing.T) { acctest.Says(t, w.Plan(config(x.body)), "Error: ", x.says) })
	}

	rendered := func(cluster, more string) string {
		return config(patched) + fmt.Sprintf(`
data "muster_rendered_addon" "override" {
  template        = muster_addon_template.override.name
  managed_cluster = muster_managed_cluster.agents[%q].name
  %s
}
locals { logger = nonsensitive(jsondecode(data.muster_rendered_addon.override.rendered[0]).spec) }
output "rendered" {
  value = {
    replicas = local.logger.replicas, at = local.logger.template.metadata.annotations.at,
    unknown  = data.muster_rendered_addon.override.unknown_variables
  }
}
resource "muster_addon_deployment_config" "override" {
  namespace            = "agents-shop"
  name                 = "levels"
  customized_variables = { LEVEL = "debug", REGION = "mars" }
}
`, cluster, more)
	}
	acctest.Says(t, w.Plan(rendered("agents-b", "")), "replicas = 3", `at       = "us agents-b "`, `+ "LEVEL"`)
	acctest.Says(t, w.Plan(rendered("agents-c", "")), "Error: A cluster without its own content",
		`The cluster "agents-c" would get nothing of the add-on`, "the value REGION: the cluster has no value")
	apply(rendered("agents-a", ""))
	acctest.Says(t, w.Plan(rendered("agents-c",
		`deployment_config = { namespace = "agents-shop", name = "levels" }`)), `-> "mars agents-c debug"`)
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

// A hub that would hand placeholders out as they are is noticed while planning.
func TestAccOverridesNeedTheirGate(t *testing.T) {
	w := acctest.NewWorkspace(t)
	hub := acctest.OwnHub(t, "--feature-gates", "WorkOverride=false")
	set := func(body string) string {
		return fmt.Sprintf(`
provider "muster" { kubeconfig_path = %q }
resource "muster_manifest_work_replica_set" "override" {
  namespace  = "default"
  name       = "web"
  placements = [{ name = "everywhere" }]
  manifests  = ["{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: shop}, data: {at: x}}"]
  %s
}
`, hub.Kubeconfig, body)
	}
	acctest.Says(t, w.Plan(set(`values = [{ name = "REGION", label = "region" }]`)), "Error: The hub has no overrides",
		"with muster_manifest_work_replica_set.override", "values = ", "feature gate WorkOverride")
	acctest.Says(t, w.Plan(set(`overrides = [{ object = { kind = "ConfigMap" }, type = "Merge", patch = "{}" }]`)),
		"Error: The hub has no overrides", "overrides = ")
	acctest.Says(t, w.Plan(set("")), "1 to add")
	acctest.Says(t, w.Plan(fmt.Sprintf(`
provider "muster" { kubeconfig_path = %q }
resource "muster_addon_template" "override" {
  name       = "override-off"
  addon_name = "override-off"
  manifests  = ["{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: shop}, data: {at: x}}"]
  values     = [{ name = "REGION", label = "region" }]
}
`, hub.Kubeconfig)), "Error: The hub has no overrides", "with muster_addon_template.override")
}
