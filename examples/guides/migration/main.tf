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
  kubeconfig_path = "~/.kube/hub.kubeconfig"
}

# The clusters that have joined already, by their names on the hub.
locals {
  clusters = {
    paris = { labels = { region = "eu" } }
  }
}

# Only reads: nothing on the hub changes by an import.
import {
  for_each = local.clusters
  to       = module.fleet.muster_managed_cluster.this[each.key]
  id       = each.key
}

import {
  for_each = local.clusters
  to       = module.fleet.muster_cluster_acceptance.this[each.key]
  id       = each.key
}

# Without a connection the module leaves the agents alone: they are those that
# clusteradm or a script has installed.
module "fleet" {
  source   = "github.com/muster-fleet/terraform-provider-muster//examples/modules/fleet-onboarding?ref=v0.1.0"
  clusters = local.clusters
}
