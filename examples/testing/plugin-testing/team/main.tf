# What a team gets on the hub: a cluster set, a namespace that may select from it,
# and a placement.

terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = "~> 0.1"
    }
  }
}

variable "team" {
  description = "Name of the team: of its cluster set and its namespace on the hub."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", var.team))
    error_message = "The team is the name of a namespace: lower-case letters, digits and dashes."
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

resource "muster_placement" "production" {
  namespace    = muster_managed_cluster_set_binding.team.namespace
  name         = "production"
  cluster_sets = [muster_managed_cluster_set_binding.team.cluster_set]

  predicates = [{
    label_selector = { match_labels = { stage = "production" } }
  }]
}
