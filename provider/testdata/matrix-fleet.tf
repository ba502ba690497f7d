resource "muster_managed_cluster_set" "x" {
  name = "matrix-fleet"
}

resource "muster_managed_cluster" "x" {
  name        = "matrix-fleet"
  cluster_set = muster_managed_cluster_set.x.name

  client_configs = [{ url = local.server, ca_bundle = local.ca }]
}

resource "muster_cluster_acceptance" "x" {
  managed_cluster = muster_managed_cluster.x.name
}

resource "muster_klusterlet" "x" {
  cluster_name       = muster_managed_cluster.x.name
  cluster_connection = { kubeconfig_path = local.kubeconfig }
  user_access        = true
  labels             = { env = local.value }

  timeouts {
    create = "1m"
    update = "1m"
  }
}

resource "muster_cluster_registration" "x" {
  managed_cluster = muster_cluster_acceptance.x.managed_cluster
  agent_ready     = muster_klusterlet.x.ready

  timeouts {
    create = "${length(local.value)}m"
  }
}

resource "muster_manifest_work" "x" {
  managed_cluster = muster_cluster_registration.x.managed_cluster
  name            = "web"
  objects         = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "matrix-fleet-${local.value}", namespace = "default" } }]
}

resource "muster_manifest_work_wait" "x" {
  managed_cluster = muster_manifest_work.x.managed_cluster
  name            = muster_manifest_work.x.name
  generation      = muster_manifest_work.x.generation
  conditions      = ["Applied", "Available"]
}

resource "muster_namespace" "x" {
  name = "matrix-fleet-team"
}

resource "muster_managed_cluster_set_binding" "x" {
  namespace   = muster_namespace.x.name
  cluster_set = muster_managed_cluster_set.x.name
}

resource "muster_placement" "x" {
  namespace  = muster_managed_cluster_set_binding.x.namespace
  name       = "all"
  depends_on = [muster_cluster_registration.x]
}

resource "muster_manifest_work_replica_set" "x" {
  namespace  = muster_namespace.x.name
  name       = "rs"
  placements = [{ name = muster_placement.x.name }]
  objects    = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "matrix-fleet-rs", namespace = "default" }, data = { env = local.value } }]
}

resource "muster_manifest_work_replica_set_wait" "x" {
  namespace  = muster_manifest_work_replica_set.x.namespace
  name       = muster_manifest_work_replica_set.x.name
  generation = muster_manifest_work_replica_set.x.generation
  rolled_out = true
}

resource "muster_access_role" "x" {
  name  = "matrix-fleet"
  rules = [{ api_groups = [""], resources = ["pods"], verbs = ["get"] }]
}

resource "muster_logical_cloud" "x" {
  namespace         = muster_namespace.x.name
  name              = "prod"
  placements        = [muster_placement.x.name]
  cluster_namespace = { name = "matrix-fleet-prod", on_delete = "Delete" }
  grants            = [{ role = muster_access_role.x.name, users = ["jo"] }]
}

resource "muster_logical_cloud_wait" "x" {
  namespace = muster_logical_cloud.x.namespace
  name      = muster_logical_cloud.x.name
  min_ready = 1
  triggers  = { env = local.value }
}

resource "muster_access_request" "x" {
  logical_cloud   = "${muster_logical_cloud.x.namespace}/${muster_logical_cloud.x.name}"
  managed_cluster = muster_managed_cluster.x.name
  user            = "jo"
  csr_pem         = local.csr
  ttl             = "${length(local.value)}h"
  depends_on      = [muster_logical_cloud_wait.x]
}
