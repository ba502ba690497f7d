# What a team gets on the hub: a cluster set, a namespace that may select from it,
# and a placement for each stage. The folder tests has its tests.

terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = "~> 0.1"
    }
  }
}

resource "muster_managed_cluster_set" "team" {
  name = var.team
}

resource "muster_namespace" "team" {
  name = var.team
}

resource "muster_managed_cluster_set_binding" "team" {
  namespace   = muster_namespace.team.name
  cluster_set = muster_managed_cluster_set.team.name
}

resource "muster_placement" "stage" {
  for_each = var.stages

  namespace    = muster_managed_cluster_set_binding.team.namespace
  name         = each.key
  cluster_sets = [muster_managed_cluster_set_binding.team.cluster_set]

  predicates = [{
    label_selector = { match_labels = { stage = each.key } }
  }]
}
