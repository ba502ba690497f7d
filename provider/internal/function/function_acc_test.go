package function_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// outputs are the root outputs after an apply.
func outputs(t *testing.T, w *acctest.Terraform) map[string]any {
	t.Helper()
	said, ok := w.Run("output", "-json")
	if !ok {
		t.Fatal(said)
	}
	var decoded map[string]struct {
		Value     any
		Sensitive bool
	}
	if err := json.Unmarshal([]byte(said), &decoded); err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	for name, output := range decoded {
		values[name] = output.Value
		if output.Sensitive {
			values[name] = "sensitive"
		}
	}
	return values
}

// The functions with what Terraform makes of their arguments: tuples, objects,
// sensitive and unknown values. None of them needs a hub.
func TestAccFunctions(t *testing.T) {
	w := acctest.NewTerraform(t)
	w.Setenv("MUSTER_KUBECONFIG", "")
	if err := os.Mkdir(filepath.Join(w.Dir, "m"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"10-shop.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\ndata: {n: \"1\"}\n",
		"20-jobs.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: jobs}\n",
	} {
		if err := os.WriteFile(filepath.Join(w.Dir, "m", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const config = `
variable "token" {
  default   = "hunter2"
  sensitive = true
}
resource "terraform_data" "late" { input = "Paris West" }
locals {
  objects = provider::muster::manifests_from_yaml({ for f in fileset(path.module, "m/*.yaml") : f => file("${path.module}/${f}") })
}
output "kinds" { value = [for o in local.objects : "${o.kind}/${o.metadata.name}"] }
output "labelled" { value = [for o in local.objects : merge(o, { metadata = merge(o.metadata, { labels = { team = "shop" } }) })][2].metadata }
output "late" { value = provider::muster::cluster_name(terraform_data.late.output) }
output "selector" { value = provider::muster::label_selector({ match_labels = { env = "prod" }, match_expressions = [{ key = "gpu", operator = "Exists" }, { key = "region", operator = "In", values = toset(["us", "eu"]) }] }) }
output "parsed" { value = provider::muster::parse_label_selector("env=prod,region in (eu,us),!old") }
output "server" {
  value     = yamldecode(provider::muster::kubeconfig({ host = "https://a:6443", token = var.token })).users[0].user.token
  sensitive = true
}
output "agent" { value = [for o in provider::muster::klusterlet_manifests({ cluster_name = provider::muster::cluster_name("paris") }) : o.kind] }
`
	said, ok := w.Apply(config)
	if !ok {
		t.Fatal(said)
	}
	if strings.Contains(said, "No hub is configured") {
		t.Error("functions alone configure the provider")
	}
	if said, ok = w.Apply(config); !ok || !strings.Contains(said, "No changes") {
		t.Errorf("the results differ from one run to the next: %s", said)
	}
	got := outputs(t, w)
	late, _ := got["late"].(string)
	delete(got, "late")
	if !strings.HasPrefix(late, "paris-west-") {
		t.Errorf("got %q", late)
	}
	want := map[string]any{
		"kinds":    []any{"Namespace/shop", "ConfigMap/a", "Namespace/jobs"},
		"labelled": map[string]any{"name": "jobs", "labels": map[string]any{"team": "shop"}},
		"selector": "env=prod,gpu,region in (eu,us)",
		"parsed": map[string]any{"match_labels": map[string]any{"env": "prod"}, "match_expressions": []any{
			map[string]any{"key": "old", "operator": "DoesNotExist", "values": nil},
			map[string]any{"key": "region", "operator": "In", "values": []any{"eu", "us"}},
		}},
		"server": "sensitive",
		"agent":  []any{"Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ClusterRole", "ClusterRoleBinding", "Namespace", "ClusterRole", "RoleBinding", "Deployment"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// An error shows the call, the argument and what is wrong with it.
func TestAccFunctionErrors(t *testing.T) {
	w := acctest.NewTerraform(t)
	for call, want := range map[string]string{
		`manifests_from_yaml({ "a.yaml" = "kind: X" })`:               `Invalid value for "text" parameter: a.yaml: document 1, line 1: it has no apiVersion`,
		`kubeconfig({ host = "https://a", tokn = "x" })`:              `Invalid value for "connection" parameter: tokn: there is no such attribute. There are: client_certificate, `,
		`cluster_name("---")`:                                         `Invalid value for "text" parameter: "---" has no letter from a to z`,
		`label_selector({ match_labels = { "a b" = "c" } })`:          `Invalid value for "selector" parameter: match_labels: `,
		`parse_label_selector("a in")`:                                `Invalid value for "text" parameter: "a in" is not a label selector`,
		`klusterlet_manifests({ cluster_name = "default" })`:          `Invalid value for "klusterlet" parameter: cluster_name: `,
		`klusterlet_manifests({ cluster_name = "a", image = ["x"] })`: `parameter: image: this has to be a text, and is a list.`,
	} {
		acctest.Says(t, w.Plan("output \"x\" { value = provider::muster::"+call+" }\n"), want)
	}
}

// What functions return fits the resources.
func TestAccFunctionsAsArguments(t *testing.T) {
	w := acctest.NewTerraform(t)
	config := `
resource "muster_managed_cluster_set" "x" {
  name           = "functions"
  label_selector = provider::muster::parse_label_selector("env=prod,region in (eu,us)")
}
` + acctest.WorkConfig("functions", `objects = provider::muster::manifests_from_yaml("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\ndata: {n: '1'}\n")`)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(said)
	}
	if said, ok := w.Apply(config); !ok || !strings.Contains(said, "No changes") {
		t.Error(said)
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(said)
	}
}
