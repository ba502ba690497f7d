# One namespace in clusters behind walls, in which one user may edit. The clusters here are
# those that `muster up` starts; nothing of it says where their API servers are.

terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = "~> 0.1"
    }
  }
}

variable "fleet_dir" {
  description = "Data directory of `muster up`, with the kubeconfigs of the hub and of the clusters."
  type        = string
  default     = "../../../.demo"
}

variable "clusters" {
  description = "The clusters. Their names are those of the folders in the data directory."
  type        = set(string)
  default     = ["cluster1", "cluster2", "cluster3"]
}

provider "muster" {
  kubeconfig_path = "${var.fleet_dir}/hub/admin.kubeconfig"
}

module "fleet" {
  source = "../../modules/fleet-onboarding"

  clusters = {
    for name in var.clusters : name => {
      connection  = { kubeconfig_path = "${var.fleet_dir}/clusters/${name}/admin.kubeconfig" }
      cluster_set = muster_managed_cluster_set.walled.name
      agent       = { user_access = true, tunnels = true }
    }
  }
}

resource "muster_managed_cluster_set" "walled" {
  name = "walled"
}

resource "muster_namespace" "team_a" {
  name = "team-a"
}

resource "muster_managed_cluster_set_binding" "team_a" {
  namespace   = muster_namespace.team_a.name
  cluster_set = muster_managed_cluster_set.walled.name
}

resource "muster_placement" "walled" {
  namespace    = muster_managed_cluster_set_binding.team_a.namespace
  name         = "walled"
  cluster_sets = [muster_managed_cluster_set_binding.team_a.cluster_set]
}

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
  placements        = [muster_placement.walled.name]
  cluster_namespace = { name = "team-a-prod" }
  grants            = [{ role = muster_access_role.edit.name, users = ["jo@example.com"] }]

  depends_on = [module.fleet]
}
