# An add-on in three clusters, from a template: a change goes from cluster to cluster,
# and a job runs before the add-on is removed. The clusters are those that `muster up`
# starts.

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

module "fleet" {
  source      = "../modules/fleet-onboarding"
  agent_image = var.agent_image

  clusters = {
    for name in var.clusters : name => {
      connection  = { kubeconfig_path = "${var.fleet_dir}/clusters/${name}/admin.kubeconfig" }
      cluster_set = muster_managed_cluster_set.greeted.name
    }
  }
}

resource "muster_managed_cluster_set" "greeted" {
  name = "greeted"
}

resource "muster_namespace" "addons" {
  name = "addons"
}

resource "muster_managed_cluster_set_binding" "addons" {
  namespace   = muster_namespace.addons.name
  cluster_set = muster_managed_cluster_set.greeted.name
}

resource "muster_placement" "greeted" {
  namespace    = muster_managed_cluster_set_binding.addons.namespace
  name         = "greeted"
  cluster_sets = [muster_managed_cluster_set_binding.addons.cluster_set]
}

module "greeter" {
  source = "../modules/addon"

  name      = "greeter"
  placement = { namespace = muster_placement.greeted.namespace, name = muster_placement.greeted.name }
  variables = { MESSAGE = var.message }

  objects = [
    {
      apiVersion = "v1"
      kind       = "ConfigMap"
      metadata   = { name = "greeting", namespace = "default" }
      data       = { text = "{{MESSAGE}}, {{CLUSTER_NAME}}" }
    },
    {
      apiVersion = "apps/v1"
      kind       = "Deployment"
      metadata   = { name = "greeter", namespace = "default" }
      spec = {
        replicas = 1
        selector = { matchLabels = { app = "greeter" } }
        template = {
          metadata = { labels = { app = "greeter" } }
          spec = {
            containers = [{ name = "greeter", image = "registry.example.com/greeter:1" }]
          }
        }
      }
    },
    # Runs when the add-on is removed from a cluster, before its objects go.
    {
      apiVersion = "batch/v1"
      kind       = "Job"
      metadata = {
        name        = "farewell"
        namespace   = "default"
        annotations = { "addon.open-cluster-management.io/addon-pre-delete" = "" }
      }
      spec = {
        template = {
          spec = {
            containers    = [{ name = "farewell", image = "registry.example.com/greeter:1", args = ["--farewell"] }]
            restartPolicy = "Never"
          }
        }
      }
    },
  ]

  max_concurrency   = "1"
  min_success_time  = "1s"
  progress_deadline = var.timeout.cluster
  timeout           = var.timeout.rollout

  # The add-on needs agents to be installed, and to be removed.
  depends_on = [module.fleet]
}

# How it is in each cluster, for those who look.
data "muster_addon" "greeter" {
  name       = module.greeter.name
  depends_on = [module.greeter]
}
