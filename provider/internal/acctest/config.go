package acctest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/provider"
)

// ClusterAddress is the resource of ClusterConfig.
const ClusterAddress = "muster_managed_cluster.test"

// ClusterConfig is a managed cluster, with more of its body.
func ClusterConfig(name, body string) string {
	return fmt.Sprintf("resource \"muster_managed_cluster\" \"test\" {\n  name = %q\n%s\n}\n", name, body)
}

// Saying matches a text however Terraform breaks its lines.
func Saying(texts ...string) *regexp.Regexp {
	var parts []string
	for _, text := range texts {
		var words []string
		for _, word := range strings.Fields(text) {
			words = append(words, regexp.QuoteMeta(word))
		}
		parts = append(parts, strings.Join(words, `\s+`))
	}
	return regexp.MustCompile(`(?s)` + strings.Join(parts, `.*`))
}

// AcceptanceAddress is the acceptance of AcceptanceConfig.
const AcceptanceAddress = "muster_cluster_acceptance.test"

// AcceptanceConfig is a managed cluster and its acceptance.
func AcceptanceConfig(name, body string) string {
	return ClusterConfig(name, "") + fmt.Sprintf("resource \"muster_cluster_acceptance\" \"test\" {\n  "+
		"managed_cluster = muster_managed_cluster.test.name\n%s\n}\n", body)
}

// PlacementConfig is a placement called where.
func PlacementConfig(namespace, body string) string {
	return fmt.Sprintf("resource \"muster_placement\" \"test\" {\n  namespace = %q\n  name = \"where\"\n%s\n}\n",
		namespace, body)
}

// PlacementBody sets every attribute of the selection.
const PlacementBody = `
  labels             = { team = "shop" }
  annotations        = { owner = "Joe's team" }
  sort_by            = "Score"
  score_rate_limit   = "5m"
  spread_policy = {
    spread_constraints = [
      { topology_key = "region", topology_key_type = "Label", max_skew = 2, when_unsatisfiable = "DoNotSchedule" },
      { topology_key = "platform", topology_key_type = "Claim" },
    ]
  }
  cluster_sets       = ["blue", "global"]
  number_of_clusters = 2
  predicates = [
    {
      label_selector  = { match_labels = { env = "prod" }, match_expressions = [{ key = "region", operator = "NotIn", values = ["us", "eu"] }] }
      claim_selector  = { match_expressions = [{ key = "platform", operator = "Exists" }] }
      cel_expressions = ["managedCluster.metadata.name != 'x'"]
    },
    { label_selector = { match_labels = { always = "yes" } } },
  ]
  prioritizer_policy = {
    mode = "Exact"
    configurations = [
      { built_in = "ResourceAllocatableMemory", weight = 2 },
      { add_on = { resource_name = "default", score_name = "latency" }, weight = -3 },
      { built_in = "Steady" },
    ]
  }
  tolerations = [
    { key = "maintenance", value = "soft", effect = "NoSelect", toleration_seconds = 60 },
    { operator = "Exists" },
  ]
  decision_strategy = {
    clusters_per_decision_group = "25%"
    decision_groups = [{ name = "canary", label_selector = { match_labels = { canary = "true" } } }]
  }`

// SetConfig is a cluster set.
func SetConfig(name, body string) string {
	return fmt.Sprintf("resource \"muster_managed_cluster_set\" \"test\" {\n  name = %q\n%s\n}\n", name, body)
}

// WorkAddress is the resource of WorkConfig.
const WorkAddress = "muster_manifest_work.test"

// WorkConfig is a work on an accepted cluster.
func WorkConfig(cluster, body string) string {
	return AcceptanceConfig(cluster, "") + fmt.Sprintf(`
resource "muster_manifest_work" "test" {
  managed_cluster = muster_cluster_acceptance.test.managed_cluster
  name            = "web"
%s
}
`, body)
}

const (
	// AsYAML is a config map as YAML, AsJSON the same as JSON.
	AsYAML = `  manifests = [<<-YAML
    # A comment.
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: settings
      namespace: shop
    data:
      answer: "42"
      script: |
        a < b && c
    ---
    apiVersion: v1
    kind: Namespace
    metadata: {name: shop}
  YAML
  ]`
	// AsJSON is what AsYAML is.
	AsJSON = `  manifests = [
    jsonencode({ kind = "ConfigMap", apiVersion = "v1", data = { script = "a < b && c\n", answer = "42" }, metadata = { namespace = "shop", name = "settings" } }),
    yamlencode({ apiVersion = "v1", kind = "Namespace", metadata = { name = "shop" } }),
  ]`
	// WithOptions is AsYAML with every option of a work.
	WithOptions = AsYAML + `
  labels        = { app = "web" }
  delete_option = { propagation_policy = "SelectivelyOrphan", orphaning_rules = [{ resource = "namespaces", name = "shop" }] }
  executor      = { namespace = "shop", service_account = "deployer" }
  manifest_configs = [
    {
      resource_identifier = { resource = "configmaps", name = "settings", namespace = "shop" }
      update_strategy     = { type = "ServerSideApply", server_side_apply = { ignore_fields = [{ json_paths = [".data.answer"] }] } }
    },
    {
      resource_identifier = { group = "batch", resource = "jobs", name = "*", namespace = "*" }
      feedback_rules      = [{ type = "WellKnownStatus" }, { type = "JSONPaths", json_paths = [{ name = "done", path = ".status.succeeded" }] }]
      condition_rules     = [{ condition = "Complete", type = "CEL", cel_expressions = ["object.status.succeeded > 0"] }]
    },
  ]`
)

// ConfiguredServer is the provider with a hub at host.
func ConfiguredServer(t testing.TB, host string) tfprotov6.ProviderServer {
	t.Helper()
	server, err := provider.NewServer("test")
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	object := schemas.Provider.ValueType().(tftypes.Object)
	values := map[string]tftypes.Value{}
	for name, kind := range object.AttributeTypes {
		values[name] = tftypes.NewValue(kind, nil)
	}
	values["host"] = tftypes.NewValue(tftypes.String, host)
	config, err := tfprotov6.NewDynamicValue(object, tftypes.NewValue(object, values))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{Config: &config})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range resp.Diagnostics {
		t.Fatalf("%s: %s", d.Summary, d.Detail)
	}
	return server
}
