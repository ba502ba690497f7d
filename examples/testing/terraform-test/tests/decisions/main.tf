# What the hub has decided: a test looks there, and not only into the state of the
# module that it tests.

terraform {
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = "~> 0.1"
    }
  }
}

variable "namespace" { type = string }
variable "placement" { type = string }

data "muster_placement_decisions" "this" {
  namespace    = var.namespace
  placement    = var.placement
  min_clusters = 1
}

output "clusters" {
  value = data.muster_placement_decisions.this.clusters
}
