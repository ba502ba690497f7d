terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = "~> 0.1"
    }
  }
}

# Stand for the modules that make the hub and the clusters. What they return is
# unknown until the apply has made them.
variable "hub_kubeconfig" {
  type      = string
  sensitive = true
}

variable "cluster_kubeconfigs" {
  type = map(string)
}

resource "terraform_data" "hub" {
  input = var.hub_kubeconfig
}

resource "terraform_data" "cluster" {
  for_each = var.cluster_kubeconfigs
  input    = each.value
}

# Unknown in the first plan, and no problem there: nothing is asked of the hub before
# it is there.
provider "muster" {
  kubeconfig = terraform_data.hub.output
}

module "fleet" {
  source = "github.com/muster-fleet/terraform-provider-muster//examples/modules/fleet-onboarding?ref=v0.1.0"

  # The names have to be known in the plan, as everywhere with for_each. The values may
  # be unknown.
  clusters = {
    for name, cluster in terraform_data.cluster : name => {
      connection = { kubeconfig = cluster.output }
    }
  }
}

# A work on each cluster that has its agent. What a bad cluster lacks, the others get.
resource "muster_manifest_work" "hello" {
  for_each = terraform_data.cluster

  managed_cluster = module.fleet.clusters[each.key]
  name            = "hello"

  objects = [{
    apiVersion = "v1"
    kind       = "ConfigMap"
    metadata   = { name = "hello", namespace = "default" }
    data       = { cluster = each.key }
  }]

  wait = { conditions = ["Available"] }

  lifecycle {
    precondition {
      condition     = module.fleet.problems[each.key] == null
      error_message = "No work for ${each.key}: it has not joined."
    }
  }
}
