terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = "~> 0.1"
    }
  }
}

variable "drained" {
  description = "Whether placements leave the cluster."
  type        = bool
  default     = false
}

resource "muster_managed_cluster" "paris" {
  name = "paris"

  # NoSelect: what placements have put there moves away. NoSelectIfNew: it stays, and
  # nothing new comes.
  taints = var.drained ? [{ key = "example.com/maintenance", effect = "NoSelect" }] : []
}
