# One namespace in three clusters, in which one user may edit: the clusters are
# those that `muster up` starts.

terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = "~> 0.1"
    }
  }
}

provider "muster" {
  kubeconfig_path = "${var.fleet_dir}/hub/admin.kubeconfig"
}

# The clusters. Their owners let users of the hub in with user_access, and limit it with
# the config map muster-access-policy.
# Where users reach the clusters: here the addresses in their kubeconfigs.
locals {
  kubeconfigs = { for name in var.clusters : name => "${var.fleet_dir}/clusters/${name}/admin.kubeconfig" }
  api_servers = { for name, file in local.kubeconfigs : name => yamldecode(file(file)).clusters[0].cluster }
}

module "fleet" {
  source      = "../modules/fleet-onboarding"
  agent_image = var.agent_image

  clusters = {
    for name in var.clusters : name => {
      connection  = { kubeconfig_path = local.kubeconfigs[name] }
      cluster_set = muster_managed_cluster_set.edge.name
      client_configs = [{
        url       = local.api_servers[name].server
        ca_bundle = base64decode(local.api_servers[name].certificate-authority-data)
      }]
      agent = { user_access = true }
    }
  }
}

resource "muster_managed_cluster_set" "edge" {
  name = "edge"
}

# The project: a namespace on the hub that may select from the set.
resource "muster_namespace" "team_a" {
  name = "team-a"
}

resource "muster_managed_cluster_set_binding" "team_a" {
  namespace   = muster_namespace.team_a.name
  cluster_set = muster_managed_cluster_set.edge.name
}

resource "muster_placement" "edge" {
  namespace    = muster_managed_cluster_set_binding.team_a.namespace
  name         = "edge"
  cluster_sets = [muster_managed_cluster_set_binding.team_a.cluster_set]
}

# What may be granted, in the fleet administrator's catalogue.
resource "muster_access_role" "edit" {
  name = "edit"
  rules = [{
    api_groups = ["", "apps", "batch"]
    resources  = ["*"]
    verbs      = ["*"]
  }]
}

resource "muster_logical_cloud" "prod" {
  namespace         = muster_namespace.team_a.name
  name              = "prod"
  placements        = [muster_placement.edge.name]
  cluster_namespace = { name = "team-a-prod" }

  quotas = {
    main = { "limits.cpu" = "400", pods = "50" }
  }

  grants = [{ role = muster_access_role.edit.name, users = [var.user] }]
  access = { key_policy = var.key_policy }

  depends_on = [module.fleet]
}

# Fails the run when the namespace and the rights are not everywhere in time.
resource "muster_logical_cloud_wait" "prod" {
  namespace = muster_logical_cloud.prod.namespace
  name      = muster_logical_cloud.prod.name
  min_ready = length(var.clusters)
}
