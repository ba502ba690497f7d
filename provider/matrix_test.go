package provider_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// row is a resource in the matrix.
type row struct {
	resource string
	// body is its configuration. @name is the test's name, and @value an expression of
	// a string, on which all depends that can be changed.
	body string
	// id is its import ID, and identity its attributes. Without them the import is
	// tested elsewhere, for the reason in imported.
	id, identity, imported string
	// object is an empty one of its kind, at namespace and name. nil is none that
	// somebody could delete.
	object          kube.Object
	namespace, name string
	// edit is what somebody else does to it, as a merge patch; "" is nothing that the
	// resource would have to notice.
	edit string
}

// matrix are the resources whose life is tested, for a test called n.
func matrix(n string) []row {
	return []row{
		{
			resource: "muster_managed_cluster",
			body: `name = "@name-c"
  labels                 = { env = @value }
  annotations            = { note = @value }
  cluster_set            = @value
  lease_duration_seconds = 10 * length(@value)
  taints                 = [{ key = "example.com/upgrade", value = @value, effect = "NoSelectIfNew" }]`,
			id: n + "-c", identity: `name = "` + n + `-c"`,
			object: &clusterv1.ManagedCluster{}, name: n + "-c", edit: `{"metadata":{"labels":{"env":"edited"}}}`,
		},
		{
			resource: "muster_cluster_acceptance",
			body: `managed_cluster = muster_managed_cluster.x.name
  accepted        = length(@value) == 3`,
			id: n + "-c", identity: `managed_cluster = "` + n + `-c"`,
			object: &clusterv1.ManagedCluster{}, name: n + "-c", edit: `{"spec":{"hubAcceptsClient":false}}`,
		},
		{
			resource: "muster_bootstrap_token",
			body: `ttl            = "${10 + length(@value)}h"
  description    = @value
  max_clusters   = length(@value)
  cluster_labels = { env = @value }`,
			imported: "the hub makes up its ID: provider/internal/registration",
		},
		{
			resource: "muster_managed_cluster_set",
			body: `name = "@name-s"
  labels             = { env = @value }
  label_selector     = { match_labels = { env = @value } }
  managed_namespaces = ["ns-${@value}"]`,
			id: n + "-s", identity: `name = "` + n + `-s"`,
			object: &clusterv1beta2.ManagedClusterSet{}, name: n + "-s", edit: `{"metadata":{"labels":{"env":"edited"}}}`,
		},
		{
			resource: "muster_managed_cluster_set_binding",
			body: `namespace   = muster_namespace.x.name
  cluster_set = muster_managed_cluster_set.x.name`,
			id: n + "-n/" + n + "-s", identity: fmt.Sprintf(`namespace = "%s-n", cluster_set = "%[1]s-s"`, n),
			object: &clusterv1beta2.ManagedClusterSetBinding{}, namespace: n + "-n", name: n + "-s",
		},
		{
			resource: "muster_namespace",
			body: `name = "@name-n"
  labels      = { env = @value }
  annotations = { note = @value }`,
			id: n + "-n", identity: `name = "` + n + `-n"`,
			object: &corev1.Namespace{}, name: n + "-n", edit: `{"metadata":{"labels":{"env":"edited"}}}`,
		},
		{
			resource: "muster_placement",
			body: `namespace = muster_namespace.x.name
  name               = "where"
  labels             = { env = @value }
  annotations        = { note = @value }
  number_of_clusters = length(@value)
  predicates         = [{ label_selector = { match_labels = { env = @value } } }]
  tolerations        = [{ key = "example.com/${@value}", operator = "Exists" }]`,
			id: n + "-n/where", identity: `namespace = "` + n + `-n", name = "where"`,
			object: &clusterv1beta1.Placement{}, namespace: n + "-n", name: "where", edit: `{"spec":{"numberOfClusters":9}}`,
		},
		{
			resource: "muster_addon_placement_score",
			body: `managed_cluster = muster_namespace.x.name
  name            = "cost"
  labels          = { env = @value }
  scores          = { euros = length(@value) }`,
			id: n + "-n/cost", identity: `managed_cluster = "` + n + `-n", name = "cost"`,
			object: &clusterv1alpha1.AddOnPlacementScore{}, namespace: n + "-n", name: "cost", edit: `{"metadata":{"labels":{"env":"edited"}}}`,
		},
		{
			resource: "muster_manifest_work",
			body: `managed_cluster = muster_namespace.x.name
  name          = "web"
  labels        = { env = @value }
  annotations   = { note = @value }
  delete_option = { propagation_policy = length(@value) == 3 ? "Orphan" : "Foreground" }
  objects       = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "web", namespace = "default" }, data = { env = @value } }]`,
			id: n + "-n/web", identity: `managed_cluster = "` + n + `-n", name = "web"`,
			object: &workv1.ManifestWork{}, namespace: n + "-n", name: "web", edit: `{"metadata":{"labels":{"env":"edited"}}}`,
		},
		{
			resource: "muster_manifest_work_replica_set",
			body: `namespace  = muster_namespace.x.name
  name       = "rs"
  labels     = { env = @value }
  placements = [{ name = "nowhere" }]
  objects    = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "rs", namespace = "default" }, data = { env = @value } }]`,
			id: n + "-n/rs", identity: `namespace = "` + n + `-n", name = "rs"`,
			object: &workv1alpha1.ManifestWorkReplicaSet{}, namespace: n + "-n", name: "rs", edit: `{"metadata":{"labels":{"env":"edited"}}}`,
		},
		{
			resource: "muster_addon",
			body: `name = "@name-addon"
  labels       = { env = @value }
  annotations  = { note = @value }
  display_name = @value
  managed_by   = "hub"
  template     = "${@value}-template"
  supported_configs = [{ group = "", resource = "configmaps", default = { namespace = "default", name = @value } }]
  placements = [{
    namespace        = muster_namespace.x.name
    name             = "nowhere"
    configs          = [{ resource = "addondeploymentconfigs", namespace = "default", name = @value }]
    rollout_strategy = { type = "Progressive", max_concurrency = tostring(length(@value)) }
  }]`,
			id: n + "-addon", identity: `name = "` + n + `-addon"`,
			object: &addonv1alpha1.ClusterManagementAddOn{}, name: n + "-addon", edit: `{"spec":{"installStrategy":{"type":"Manual"}}}`,
		},
		{
			resource: "muster_access_role",
			body: `name = "@name-r"
  labels                = { env = @value }
  rules                 = [{ api_groups = [""], resources = ["pods"], resource_names = [@value], verbs = ["get"] }]
  cluster_scope_allowed = length(@value) == 5`,
			id: n + "-r", identity: `name = "` + n + `-r"`,
			object: &musterv1alpha1.AccessRole{}, name: n + "-r", edit: `{"clusterScopeAllowed":true}`,
		},
		{
			resource: "muster_cluster_import",
			body: `name = "@name-i"
  labels         = { env = @value }
  endpoint       = { server = "https://${@value}.example.com" }
  agent          = { annotations = { note = @value }, env = { A = @value }, tolerations = [{ key = @value, operator = "Exists" }] }
  cluster_labels = { env = @value }
  redeploy       = length(@value)
  rejoin         = length(@value)
  cluster_authority = "dns:${@value}.example.com"
  publish_server = length(@value) > 1`,
			id: n + "-i", identity: `name = "` + n + `-i"`,
			object: &musterv1alpha1.ClusterImport{}, name: n + "-i", edit: `{"spec":{"accept":true,"agent":{"hostNetwork":true,"annotations":{"other":"x"}}}}`,
		},
		{
			resource: "muster_logical_cloud",
			body: `namespace  = muster_namespace.x.name
  name              = "lc"
  labels            = { env = @value }
  placements        = ["nowhere"]
  cluster_namespace = { name = "@name-lc", labels = { env = @value } }
  quotas            = { main = { pods = tostring(length(@value)) } }
  grants            = [{ role = muster_access_role.x.name, users = ["jo-${@value}"] }]
  access            = { default_lifetime = "${length(@value)}h" }`,
			id: n + "-n/lc", identity: `namespace = "` + n + `-n", name = "lc"`,
			object: &musterv1alpha1.LogicalCloud{}, namespace: n + "-n", name: "lc", edit: `{"spec":{"quotas":[{"name":"main","hard":{"pods":"99"}}]}}`,
		},
		{
			resource: "muster_cluster_addon",
			body: `managed_cluster = muster_namespace.x.name
  name              = "@name-mca"
  labels            = { env = @value }
  annotations       = { note = @value }
  configs           = [{ resource = "addontemplates", name = @value }]
  hosting_cluster   = @value
  install_namespace = @value`,
			id: n + "-n/" + n + "-mca", identity: fmt.Sprintf(`managed_cluster = "%s-n", name = "%[1]s-mca"`, n),
			object: &addonv1alpha1.ManagedClusterAddOn{}, namespace: n + "-n", name: n + "-mca", edit: `{"spec":{"configs":[]}}`,
		},
		{
			resource: "muster_addon_template",
			body: `name = "@name-t"
  labels           = { env = @value }
  annotations      = { note = @value }
  addon_name       = "addon-${@value}"
  objects          = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "agent", namespace = "open-cluster-management-agent-addon" }, data = { env = @value } }]
  manifest_configs = [{ resource_identifier = { resource = "configmaps", name = @value }, feedback_rules = [{ type = "JSONPaths", json_paths = [{ name = @value, path = ".data.env" }] }] }]
  registration = [
    { kube_client = { hub_permissions = [{ current_cluster = { cluster_role_name = @value } }, { single_namespace = { namespace = "default", role_ref = { name = @value } } }] } },
    { custom_signer = { signer_name = "example.com/${@value}", subject = { user = @value }, signing_ca = { name = @value } } },
  ]`,
			id: n + "-t", identity: `name = "` + n + `-t"`,
			object: &addonv1alpha1.AddOnTemplate{}, name: n + "-t", edit: `{"spec":{"registration":null}}`,
		},
		{
			resource: "muster_addon_deployment_config",
			body: `namespace  = muster_namespace.x.name
  name                    = "adc"
  labels                  = { env = @value }
  annotations             = { note = @value }
  customized_variables    = { ENV = @value }
  node_placement          = { node_selector = { env = @value }, tolerations = [{ key = @value, operator = "Exists" }] }
  registries              = [{ source = "quay.io/${@value}", mirror = "registry.example.com/${@value}" }]
  proxy                   = { http = "http://${@value}.example.com:3128", no_proxy = [@value] }
  agent_install_namespace = length(@value) == 3 ? "" : @value
  resource_requirements   = [{ container_id = "*:${@value}:*", resources = { limits = { cpu = length(@value) } } }]`,
			id: n + "-n/adc", identity: `namespace = "` + n + `-n", name = "adc"`,
			object: &addonv1alpha1.AddOnDeploymentConfig{}, namespace: n + "-n", name: "adc", edit: `{"spec":{"agentInstallNamespace":"theirs"}}`,
		},
	}
}

// address is the resource's in the configurations of the matrix.
func (r row) address() string { return r.resource + ".x" }

// matrixConfig are all rows, with value as the expression that can be changed, and
// with more in each.
func matrixConfig(n string, rows []row, value, more string) string {
	var b strings.Builder
	fill := strings.NewReplacer("@name", n, "@value", value)
	for _, r := range rows {
		fmt.Fprintf(&b, "resource %q \"x\" {\n  %s\n", r.resource, fill.Replace(r.body))
		if r.resource != "muster_cluster_acceptance" && r.resource != "muster_bootstrap_token" { // which share their object, or name it themselves
			fmt.Fprintf(&b, "  %s\n", more)
		}
		b.WriteString("}\n\n")
	}
	return b.String()
}

// matrixImports are import blocks by ID, or by identity.
func matrixImports(rows []row, byIdentity bool) (blocks string, count int) {
	for _, r := range rows {
		how := fmt.Sprintf("id = %q", r.id)
		if byIdentity {
			how = "identity = { " + r.identity + " }"
		}
		if r.id == "" {
			continue
		}
		blocks += fmt.Sprintf("import {\n  to = %s\n  %s\n}\n", r.address(), how)
		count++
	}
	return blocks, count
}

// foreign takes a row's labels over in somebody else's name.
func foreign(o *acctest.Outsider, r row) {
	o.Patch(kube.Fresh(r.object), r.namespace, r.name, `{"metadata":{"labels":{"env":"theirs"}}}`)
}
