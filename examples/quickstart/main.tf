# A hub and its clusters, as `muster up` starts them, under Terraform: clusters
# in a set, a placement that selects among them, and a work on each.

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

resource "muster_managed_cluster_set" "production" {
  name = "production"
}

module "fleet" {
  source      = "../modules/fleet-onboarding"
  agent_image = var.agent_image

  clusters = {
    for name, cluster in var.clusters : name => merge(cluster, {
      connection  = { kubeconfig_path = "${var.fleet_dir}/clusters/${name}/admin.kubeconfig" }
      cluster_set = muster_managed_cluster_set.production.name
      labels      = merge({ environment = "production" }, try(cluster.labels, {}))
    })
  }
}

# A placement only selects from the sets that are bound to its namespace.
resource "muster_managed_cluster_set_binding" "production" {
  namespace   = "default"
  cluster_set = muster_managed_cluster_set.production.name
}

resource "muster_placement" "everywhere" {
  namespace    = muster_managed_cluster_set_binding.production.namespace
  name         = "everywhere"
  cluster_sets = [muster_managed_cluster_set_binding.production.cluster_set]

  predicates = [{
    label_selector = { match_labels = { environment = "production" } }
  }]
}

resource "muster_manifest_work" "hello" {
  for_each = var.clusters

  managed_cluster = module.fleet.clusters[each.key]
  name            = "hello"

  # Only if the placement selects the cluster.
  placement = {
    namespace = muster_placement.everywhere.namespace
    name      = muster_placement.everywhere.name
  }

  manifests = [for file in ["namespace", "configmap", "deployment"] :
    templatefile("${path.module}/manifests/${file}.yaml", { cluster = each.key })
  ]

  wait = { conditions = ["Applied", "Available"] }

  # A work that does not get there fails the run, and stays to be corrected.
  lifecycle {
    postcondition {
      condition     = self.ready
      error_message = "The work hello is not in place on ${each.key}: see the warning about it."
    }
  }
}

data "muster_placement_decisions" "everywhere" {
  namespace = muster_placement.everywhere.namespace
  placement = muster_placement.everywhere.name

  # By then each cluster has been selected.
  depends_on = [muster_manifest_work.hello]
}
